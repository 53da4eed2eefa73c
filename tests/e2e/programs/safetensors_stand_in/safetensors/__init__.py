"""Stands in for the package safetensors, which the distribution lacks: the part that docs use."""
