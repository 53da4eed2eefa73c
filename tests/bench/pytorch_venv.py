"""The virtual environment of the benchmarks, with the official PyTorch wheel."""

import subprocess
import sys


def pytorch_venv(build):
    """The environment's folder in BUILD_DIR; installed on the first call."""
    venv = build / "bench-venv"
    if not list(venv.glob("lib/*/site-packages/torchvision")):
        print("bench: installing PyTorch, once", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", "torch", "torchvision", "numpy"], check=True)
    return venv
