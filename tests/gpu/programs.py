"""Where the programs under test come from: the tarball of `make dist`, a build folder, or a build of the
engine alone."""

import lzma
import os
import pathlib
import subprocess
import sys
import tarfile
import zlib

from checks import Skipped
from usage import BadUsage

BUILD_SECONDS_MAX = 1800
TOP = pathlib.Path(__file__).resolve().parents[2]


class Programs:
    """The programs of one origin; messages name `origin`."""

    def __init__(self, root, origin):
        self.bin, self.tests, self.origin = root / "bin", root / "tests", origin

    def _find(self, path):
        if not os.access(path, os.X_OK):
            raise Skipped(f"{path.name} is not in {self.origin}")
        return path

    def program(self, name):
        """Raises Skipped if the program is missing."""
        return self._find(self.bin / name)

    def test(self, name):
        return self._find(self.tests / name)

    def of_cuda(self):
        """For each existing program that loads CUDA's libraries: a command that only starts it."""
        commands = ((self.bin / "dp-trainer-cuda", "--version"),
                    (self.tests / "dp_cuda_device_test", "--gtest_list_tests"))
        return [command for command in commands if command[0].exists()]


def chosen(options, scratch):
    """The programs chosen by --tarball, --build or, if the command has it, --engine-only."""
    if getattr(options, "engine_only", False):
        return engine_alone()
    if options.build:
        return Programs(pathlib.Path(options.build).resolve(), options.build)
    tarball = options.tarball or newest_tarball()
    if not tarball:
        raise BadUsage("no tarball in dist/, which `make dist` makes; --build DIR and --engine-only go without")
    return unpacked(tarball, scratch)


def newest_tarball():
    found = sorted((TOP / "dist").glob("dp-*-linux-x86_64*.tar.[gx]z"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def unpacked(tarball, folder):
    """Exits with 2 if the file is not what `make dist` makes."""
    try:
        with tarfile.open(tarball) as tar:
            tar.extractall(folder)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError) as why:
        raise BadUsage(f"--tarball '{tarball}' cannot be unpacked ({why}): bring the whole of it") from None
    tops = sorted(path.name for path in pathlib.Path(folder).iterdir())
    if len(tops) != 1:
        raise BadUsage(f"--tarball '{tarball}' has {' and '.join(tops)} at its top, and not one folder: give the file "
                       "that `make dist` has made")
    return Programs(pathlib.Path(folder) / tops[0], pathlib.Path(tarball).name)


def engine_alone():
    """Builds the engine here. Needs CMake, ninja and what the option DP_ENGINE_ONLY names."""
    try:
        for command in (["--preset", "engine"], ["--build", "build-engine", "--target", "gpu-tests"]):
            subprocess.run(["cmake", *command], cwd=TOP, check=True, timeout=BUILD_SECONDS_MAX)
    except (OSError, subprocess.SubprocessError) as why:
        sys.exit(f"the engine could not be built: {why}")
    return Programs(TOP / "build-engine", "the build of the engine alone")
