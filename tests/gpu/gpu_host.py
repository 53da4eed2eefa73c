"""What this host has: driver, GPU, CUDA's libraries and tools. Asks the driver itself, so that neither
nvidia-smi nor root is needed."""

import contextlib
import ctypes
import dataclasses
import functools
import glob
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

CUDA_DIRS = ("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/usr/local/nvidia")
LIBRARY_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib")
# The libraries that our programs load from the host; they are never packed with the programs. The driver's may lie
# apart, as in containers. cuDNN compiles its attention with NVRTC.
DRIVER = "libcuda.so.1"
LIBRARIES = ("libcudart.so", "libcublasLt.so", "libcudnn.so", "libnccl.so", "libnvrtc.so", DRIVER)
COMPUTE_MODE = 20  # cuDeviceGetAttribute
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
SHARED = 0  # the compute mode in which several processes may use the device
# How long a driver, or another interpreter, may take to answer; it takes some seconds if many GPUs wake up.
ANSWER_S = 30


@dataclasses.dataclass
class Gpu:
    name: str
    memory_bytes: int
    capability: tuple
    cuda: tuple  # the CUDA version that the driver knows
    shared: bool
    count: int = 1  # of all GPUs

    @property
    def driver(self):
        return f"{self.cuda[0]}.{self.cuda[1]}"

    def __str__(self):
        return (f"{self.name}, {self.memory_bytes / 2**30:.0f} GiB, sm_{self.capability[0]}{self.capability[1]}, "
                f"driver for CUDA {self.driver}")


class NoGpu(Exception):
    """There is no usable GPU; the message says what is missing."""


def ask(driver, function, *arguments):
    try:
        code = getattr(driver, function)(*arguments)
    except AttributeError:
        raise NoGpu(f"the {DRIVER} that is found has no {function}: it is not NVIDIA's driver, or a stub of it") from None
    if code != 0:
        raise NoGpu(f"the driver is there, but {function} ends with error {code}")


def load_driver():
    """Loads the driver where the loader finds it, else from the folders that our programs get."""
    errors = []
    for path in [DRIVER, *(folder / DRIVER for folder in library_dirs() if (folder / DRIVER).exists())]:
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            errors.append(str(error))
    raise NoGpu(f"no NVIDIA driver: {errors[0]}")


def first_gpu():
    """Raises NoGpu. A separate process asks the driver: if the driver crashes or hangs, nothing else does."""
    asked = subprocess.Popen([sys.executable, "-B", __file__, *packages_of_others], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        output = asked.communicate(timeout=ANSWER_S)[0]
    except subprocess.TimeoutExpired:
        raise NoGpu(f"the driver, {DRIVER}, has not answered within {ANSWER_S} s") from None
    finally:
        asked.kill()
        asked.stdout.close()
    return answer(asked.returncode, output)


def answer(code, output):
    """The GPU of which `tell_first_gpu`, in the process of first_gpu, printed `output`."""
    if code < 0:
        raise NoGpu(f"the driver, {DRIVER}, crashed as it was asked: {signal.Signals(-code).name}")
    lines = output.strip().splitlines() or ["no reason"]
    if code != 0 or not lines[-1].startswith("{"):
        raise NoGpu(f"the driver, {DRIVER}, could not be asked: {lines[-1]}")
    told = json.loads(lines[-1])
    if "lacks" in told:
        raise NoGpu(told["lacks"])
    return Gpu(**{**told, "capability": tuple(told["capability"]), "cuda": tuple(told["cuda"])})


def tell_first_gpu():
    try:
        told = dataclasses.asdict(gpu_of_driver())
    except NoGpu as why:
        told = {"lacks": str(why)}
    print(f"\n{json.dumps(told)}", flush=True)


def gpu_of_driver():
    """Raises NoGpu. Only for a process that a bad driver may end."""
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
               attribute(COMPUTE_MODE) == SHARED, count.value)


def cuda_tops(patterns=CUDA_DIRS, env=os.environ):
    """Folders that may hold a toolkit, the most trusted first: later versions before earlier ones."""
    named = [env[name] for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    found = [sorted(glob.glob(pattern), key=version_in, reverse=True) for pattern in patterns]
    return [pathlib.Path(top) for top in dict.fromkeys(itertools.chain(named, *found))]


def version_in(path):
    return [int(number) for number in re.findall(r"\d+", path)]


# Module paths of interpreters other than this one.
packages_of_others = []


def search_packages_of(python):
    """Adds the packages of an interpreter: PyTorch's bring CUDA's libraries, which serve our programs, too."""
    ask = [python, "-c", "import sys; print('\\n'.join(sys.path))"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # a program that lacks them reports that
        told = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=ANSWER_S)
        packages_of_others.extend(path for path in told.stdout.splitlines() if path)
    environment.cache_clear()


def library_dirs(paths=None):
    """Folders with CUDA's libraries: first the toolkits', then those of PyTorch's wheels."""
    folders = [top / name for top in cuda_tops() for name in LIBRARY_FOLDERS]
    for path in dict.fromkeys([*sys.path, *packages_of_others] if paths is None else paths):
        folders += sorted(pathlib.Path(path or ".").glob("nvidia/*/lib"))
    return [folder for folder in folders
            if any(list(folder.glob(f"{name}*")) for name in LIBRARIES)]


@functools.cache
def environment():
    """The environment of our programs: this process's, with CUDA's libraries where the loader finds them."""
    given = os.environ.get("LD_LIBRARY_PATH", "")
    path = [each for each in given.split(":") if each] + [str(each) for each in library_dirs()]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(path)}


def compute_sanitizer():
    """Its path, or None."""
    found = shutil.which("compute-sanitizer")
    places = [top / name for top in cuda_tops()
              for name in ("bin/compute-sanitizer", "compute-sanitizer/compute-sanitizer")]
    return found or next((str(place) for place in places if place.exists()), None)


if __name__ == "__main__":
    packages_of_others.extend(sys.argv[1:])
    tell_first_gpu()
