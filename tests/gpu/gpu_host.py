"""What this host has: driver, GPU, CUDA's libraries and tools. Asks the driver itself, so that neither
nvidia-smi nor root is needed."""

import contextlib
import ctypes
import dataclasses
import functools
import glob
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

CUDA_DIRS = ("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/usr/local/nvidia")
LIBRARY_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib")
# What our programs load; the host's own, never packed with them. The driver's may lie apart, as in containers; NVRTC is what
# cuDNN compiles its attention with.
DRIVER = "libcuda.so.1"
LIBRARIES = ("libcudart.so", "libcublasLt.so", "libcudnn.so", "libnccl.so", "libnvrtc.so", DRIVER)
COMPUTE_MODE = 20  # cuDeviceGetAttribute
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
SHARED = 0  # the compute mode in which several processes may use the device


@dataclasses.dataclass
class Gpu:
    name: str
    memory_bytes: int
    capability: tuple
    cuda: tuple  # the version of it that the driver knows
    shared: bool

    @property
    def driver(self):
        return f"{self.cuda[0]}.{self.cuda[1]}"

    def __str__(self):
        return (f"{self.name}, {self.memory_bytes / 2**30:.0f} GiB, sm_{self.capability[0]}{self.capability[1]}, "
                f"driver for CUDA {self.driver}")


class NoGpu(Exception):
    """What is missing."""


def ask(driver, function, *arguments):
    code = getattr(driver, function)(*arguments)
    if code != 0:
        raise NoGpu(f"the driver is there, but {function} ends with error {code}")


def load_driver():
    """Where the loader finds it, or in the folders that our programs are given."""
    errors = []
    for path in [DRIVER, *(folder / DRIVER for folder in library_dirs() if (folder / DRIVER).exists())]:
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            errors.append(str(error))
    raise NoGpu(f"no NVIDIA driver: {errors[0]}")


def first_gpu():
    """Raises NoGpu."""
    driver = load_driver()
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
               (version.value // 1000, version.value % 1000 // 10),
               attribute(COMPUTE_MODE) == SHARED)


def cuda_tops(patterns=CUDA_DIRS, env=os.environ):
    """Folders that may hold a toolkit, in the order of belief: those of later versions before earlier ones."""
    named = [env[name] for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    found = [sorted(glob.glob(pattern), key=version_in, reverse=True) for pattern in patterns]
    return [pathlib.Path(top) for top in dict.fromkeys(itertools.chain(named, *found))]


def version_in(path):
    return [int(number) for number in re.findall(r"\d+", path)]


# Of interpreters other than this one.
packages_of_others = []


def search_packages_of(python):
    """PyTorch's packages bring CUDA's libraries: those of an interpreter serve our programs, too."""
    ask = [python, "-c", "import sys; print('\\n'.join(sys.path))"]
    with contextlib.suppress(OSError):  # who needs it says so
        told = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        packages_of_others.extend(path for path in told.stdout.splitlines() if path)
    environment.cache_clear()


def library_dirs(paths=None):
    """Folders with CUDA's libraries: the toolkits', then those that PyTorch's wheels bring."""
    folders = [top / name for top in cuda_tops() for name in LIBRARY_FOLDERS]
    for path in dict.fromkeys([*sys.path, *packages_of_others] if paths is None else paths):
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
    places = [top / name for top in cuda_tops()
              for name in ("bin/compute-sanitizer", "compute-sanitizer/compute-sanitizer")]
    return found or next((str(place) for place in places if place.exists()), None)
