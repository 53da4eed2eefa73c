"""Arguments of tests/gpu/run and tests/gpu/bench. All are checked before anything else is done. A bad argument exits
with 2, and with a message that has its name, its value and a valid alternative."""

import argparse
import math
import pathlib
import shutil
import sys
import tarfile

BAD_USAGE = 2


class BadUsage(SystemExit):
    """Ends the command with the reason and exit code 2."""

    def __init__(self, why):
        print(f"{pathlib.Path(sys.argv[0]).name}: {why}", file=sys.stderr, flush=True)
        super().__init__(BAD_USAGE)


def refuse(why):
    raise argparse.ArgumentTypeError(why)


def number(text, kind, remedy):
    try:
        return kind(text)
    except ValueError:
        refuse(f"'{text}' is no number: {remedy}")


def minutes(text):
    remedy = "give minutes, as 9 or 0.5, or leave it out for no limit"
    value = number(text, float, remedy)
    if not math.isfinite(value) or value < 0:
        refuse(f"'{text}' is no time: {remedy}")
    return value


def rounds(text):
    remedy = "give 1 or more"
    value = number(text, int, remedy)
    if value < 1:
        refuse(f"'{text}' measures nothing: {remedy}")
    return value


def python(text):
    return text if shutil.which(text) else refuse(f"'{text}' is no program that can be run: give an interpreter, "
                                                  "as .venv/bin/python")


def build(text):
    if not any((pathlib.Path(text) / name).is_dir() for name in ("bin", "tests")):
        refuse(f"'{text}' is no build folder, as it has neither bin nor tests: give the one that CMake and ninja have "
               "built in, as build")
    return text


def tarball(text):
    """Whether the file is cut short shows only when it is unpacked."""
    remedy = "give the file that `make dist` has made, as dist/dp-VERSION-linux-x86_64.tar.gz"
    path = pathlib.Path(text)
    if not path.is_file():
        refuse(f"'{text}' is {'a folder' if path.is_dir() else 'not there'}: {remedy}")
    try:
        with tarfile.open(path) as tar:
            if tar.next() is None:
                refuse(f"'{text}' has nothing in it: {remedy}")
    except (OSError, EOFError, tarfile.TarError):
        refuse(f"'{text}' cannot be read as an archive: {remedy}")
    return text


def log(text):
    try:
        with open(text, "a"):
            return text
    except OSError as why:
        refuse(f"'{text}' cannot be written ({why.strerror}): give a file in a folder that is there and yours")


def known(names, given, what):
    """Ends the command if a given word is neither one of the names nor the beginning of one."""
    unknown = [each for each in given if not each or not any(name.startswith(each) for name in names)]
    if unknown:
        raise BadUsage(f"unknown {what}: {', '.join(map(repr, unknown))}; give names or their beginnings, of "
                       f"{' '.join(names)}")
