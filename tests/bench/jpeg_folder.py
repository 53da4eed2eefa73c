"""Writes a folder of JPEG files, two classes, for the benchmark of reading: jpeg_folder.py DIR COUNT.

The images are smooth noise of 500 x 375 pixels, as large as photographs of that size: about 70 KiB.
"""

import pathlib
import sys

import numpy
from PIL import Image

SIZE = (500, 375)
GRAIN = 6  # pixels


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    draw = numpy.random.default_rng(1)
    for number in range(count):
        coarse = draw.integers(0, 256, (SIZE[1] // GRAIN, SIZE[0] // GRAIN, 3), dtype=numpy.uint8)
        place = folder / "train" / ("even", "odd")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(coarse).resize(SIZE, Image.BICUBIC).save(place / f"{number}.jpg", quality=90)


if __name__ == "__main__":
    main()
