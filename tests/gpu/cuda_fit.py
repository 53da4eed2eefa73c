"""Whether the programs under test, this host's driver and its CUDA libraries fit together. Checked before
anything else, since the loader's complaints about single programs say little."""

import re

import gpu_host
from checks import Failed, Limit, last_lines, run

# The first driver that knows each major version of CUDA.
DRIVERS = {12: "R525", 13: "R580"}
SECONDS_MAX = 120
LOADER_FAILED = 127


def linked_major(path):
    """The major version of the CUDA that a program is linked to; None if it is not linked to CUDA."""
    found = re.search(rb"\0libcublasLt\.so\.(\d+)\0", path.read_bytes())
    return int(found.group(1)) if found else None


def why_driver_is_too_old(major, gpu):
    """None if the driver is recent enough."""
    if gpu.cuda[0] >= major:
        return None
    driver = f", {DRIVERS[major]} or newer" if major in DRIVERS else ""
    return (f"the programs are built with CUDA {major}, and this host's driver knows CUDA {gpu.driver} at most: "
            f"use a driver for CUDA {major}{driver}, or build with CUDA {gpu.cuda[0]}")


def why_not_loaded(command, major):
    """None if the loader finds all of a program's libraries."""
    try:
        code, output = run(command, Limit(SECONDS_MAX), gpu_host.environment())
    except Failed as why:
        return str(why)
    if code != LOADER_FAILED:
        return None
    searched = ", ".join(map(str, gpu_host.library_dirs())) or "no folder that has any of them"
    return (f"{last_lines(output)}; CUDA {major}'s libraries and cuDNN 9 for it were searched for in the loader's own "
            f"folders, LD_LIBRARY_PATH and {searched}; --python PYTHON adds those of its packages")


def why_not(gpu, programs):
    """The reason why the programs cannot use this host's GPU, or None."""
    for command in programs.of_cuda():
        major = linked_major(command[0])
        if major is not None:
            return why_driver_is_too_old(major, gpu) or why_not_loaded(command, major)
    return None  # no such program: its checks report that
