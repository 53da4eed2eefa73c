"""Small labelled images in IDX files, made by a formula, for tests that need data of their own."""

import pathlib
import random
import struct

SIDE = 28
CLASSES = 10


def _image(label, noise):
    """A bright square whose place depends on the label, on a noisy ground."""
    pixels = bytearray(noise.randrange(64) for _ in range(SIDE * SIDE))
    top, left = 2 + 5 * (label // 4), 2 + 6 * (label % 4)
    for row in range(top, top + 6):
        for column in range(left, left + 6):
            pixels[row * SIDE + column] = 255
    return bytes(pixels)


def write_idx(directory, train=2000, test=400, seed=1, learnable=True):
    """Writes the four files of a data set into `directory`; returns it. Where it is not to be learnable, the
    labels say nothing of the images: the loss never comes near zero, and every step depends on its samples."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    noise = random.Random(seed)
    for prefix, count in (("train", train), ("t10k", test)):
        labels = bytes(noise.randrange(CLASSES) for _ in range(count))
        shown = labels if learnable else bytes(noise.randrange(CLASSES) for _ in range(count))
        images = b"".join(_image(label, noise) for label in shown)
        (directory / f"{prefix}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, SIDE, SIDE) + images)
        (directory / f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + labels)
    return directory


def train_job(data, name="job", ranks=2, **train):
    """A job file for such data, as a dict."""
    return {
        "apiVersion": "dp/v1", "kind": "Job", "name": name, "ranks": ranks,
        "train": {
            "seed": 1, "epochs": 1, "globalBatchSize": 60, "data": {"dir": str(data)},
            "model": {"preset": "mlp"},
            "optimizer": {"sgd": {"learningRate": 0.1, "momentum": 0.9}}, **train,
        },
    }
