"""What this host has: driver, GPU, CUDA's libraries and tools. Asks the driver itself, so that neither
nvidia-smi nor root is needed."""

import ctypes
import dataclasses
import functools
import os
import pathlib
import shutil
import sys

CUDA_DIRS = ("/usr/local/cuda", "/opt/cuda", "/usr/local/nvidia")
# What our programs load; the host's own, never packed with them.
LIBRARIES = ("libcudart.so", "libcublasLt.so", "libcudnn.so", "libnccl.so")
COMPUTE_MODE = 20  # cuDeviceGetAttribute
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
SHARED = 0  # the compute mode in which several processes may use the device


@dataclasses.dataclass
class Gpu:
    name: str
    memory_bytes: int
    capability: tuple
    driver: str  # the CUDA version that the driver knows
    shared: bool

    def __str__(self):
        return (f"{self.name}, {self.memory_bytes / 2**30:.0f} GiB, sm_{self.capability[0]}{self.capability[1]}, "
                f"driver for CUDA {self.driver}")


class NoGpu(Exception):
    """What is missing."""


def ask(driver, function, *arguments):
    code = getattr(driver, function)(*arguments)
    if code != 0:
        raise NoGpu(f"the driver is there, but {function} ends with error {code}")


def first_gpu():
    """Raises NoGpu."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoGpu(f"no NVIDIA driver: {error}") from None
    ask(driver, "cuInit", 0)
    count, device, version, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    ask(driver, "cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        raise NoGpu("the driver is there, but shows no device")
    ask(driver, "cuDeviceGet", ctypes.byref(device), 0)
    ask(driver, "cuDriverGetVersion", ctypes.byref(version))
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    ask(driver, "cuDeviceGetName", name, len(name), device)
    ask(driver, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)

    def attribute(number):
        ask(driver, "cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    return Gpu(name.value.decode(), memory.value,
               (attribute(CAPABILITY_MAJOR), attribute(CAPABILITY_MINOR)),
               f"{version.value // 1000}.{version.value % 1000 // 10}",
               attribute(COMPUTE_MODE) == SHARED)


def library_dirs(paths=None):
    """Folders with CUDA's libraries: the toolkit's, then those that PyTorch's wheels bring."""
    folders = [pathlib.Path(top) / name for top in CUDA_DIRS for name in ("lib64", "lib")]
    for path in sys.path if paths is None else paths:
        folders += sorted(pathlib.Path(path or ".").glob("nvidia/*/lib"))
    return [folder for folder in folders
            if any(list(folder.glob(f"{name}*")) for name in LIBRARIES)]


@functools.cache
def environment():
    """Of our programs: this process's, with CUDA's libraries where the loader finds them."""
    given = os.environ.get("LD_LIBRARY_PATH", "")
    path = [each for each in given.split(":") if each] + [str(each) for each in library_dirs()]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(path)}


def compute_sanitizer():
    """Its path, or None."""
    found = shutil.which("compute-sanitizer")
    places = [pathlib.Path(top) / name for top in CUDA_DIRS
              for name in ("bin/compute-sanitizer", "compute-sanitizer/compute-sanitizer")]
    return found or next((str(place) for place in places if place.exists()), None)
