"""Data that tests and benchmarks make themselves: token files, and images of which only the number matters."""

import array
import pathlib
import random
import struct
import sys

HEADER = (20240520, 1)  # llm.c's magic number and version; the count of tokens follows
HEADER_NUMBERS = 256
SIDE, CLASSES = 28, 10


def write_tokens(path, count, vocabulary, kinds=64, seed=1):
    """Writes 16-bit tokens with llm.c's header. Only `kinds` different ones occur, which a model soon learns: the loss
    falls from log(vocabulary) towards log(kinds) within a few steps."""
    draw = random.Random(seed)
    chosen = draw.sample(range(vocabulary), min(kinds, vocabulary))
    tokens = array.array("H", draw.choices(chosen, k=count))
    if sys.byteorder == "big":
        tokens.byteswap()
    header = struct.pack(f"<{HEADER_NUMBERS}i", *HEADER, count, *[0] * (HEADER_NUMBERS - 3))
    pathlib.Path(path).write_bytes(header + tokens.tobytes())
    return str(path)


def write_noise_images(directory, train, test=1000, seed=1):
    """Writes an IDX data set of random pixels and labels."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    for prefix, count in (("train", train), ("t10k", test)):
        (directory / f"{prefix}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, SIDE, SIDE) + draw.randbytes(count * SIDE * SIDE))
        (directory / f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + bytes(draw.choices(range(CLASSES), k=count)))
    return str(directory)
