"""Files of weights, in safetensors format."""

import pathlib


def tensors_of(path):
    """The bytes of all tensors. The header before them describes the model, too."""
    file = pathlib.Path(path).read_bytes()
    return file[8 + int.from_bytes(file[:8], "little"):]
