"""Small data sets in files of every format, made by a formula: the label of a sample decides which
of its values are large."""

import pathlib
import random
import struct
import zlib


def samples(count, values, classes, seed=1):
    """`count` pairs of a list of bytes and a label."""
    noise = random.Random(seed)
    pairs = []
    for i in range(count):
        row = [noise.randrange(100) for _ in range(values)]
        label = i % classes
        part = values // classes
        row[label * part:(label + 1) * part] = [155 + value for value in row[label * part:(label + 1) * part]]
        pairs.append((row, label))
    return pairs


def npy(shape, descr, body):
    """The bytes of an NPY file."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def write_arrays(directory, pairs, shape):
    """Writes x.npy of bytes and y.npy of 64-bit labels; returns their paths."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    inputs, labels = directory / "x.npy", directory / "y.npy"
    inputs.write_bytes(npy((len(pairs), *shape), "|u1", b"".join(bytes(row) for row, _ in pairs)))
    labels.write_bytes(npy((len(pairs),), "<i8",
                           b"".join(struct.pack("<q", label) for _, label in pairs)))
    return str(inputs), str(labels)


def write_csv(path, pairs):
    """Writes the values as 255ths, with a first line of names; returns the path."""
    names = [f"v{i}" for i in range(len(pairs[0][0]))] + ["label"]
    lines = [",".join(names)]
    lines += [",".join([*(repr(value / 255) for value in row), str(label)]) for row, label in pairs]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    return str(path)


def _chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(rows, columns, pixels):
    """The bytes of a gray PNG file."""
    lines = b"".join(b"\0" + bytes(pixels[i * columns:(i + 1) * columns]) for i in range(rows))
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0))
            + _chunk(b"IDAT", zlib.compress(lines)) + _chunk(b"IEND", b""))


def write_folder(directory, pairs, rows, columns):
    """Writes a folder of gray images for each label; returns the directory."""
    for i, (row, label) in enumerate(pairs):
        path = pathlib.Path(directory) / "train" / f"class{label}" / f"{i:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(rows, columns, row))
    return str(directory)
