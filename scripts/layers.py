#!/usr/bin/env python3
"""Checks the arrows of ARCHITECTURE.md: which folder may include which, and what a core may not use.

Prints every line that breaks a rule and exits with 1; otherwise prints nothing and exits with 0.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A folder may include itself and the folders listed for it. The longest matching prefix of a file decides.
# A folder opens all below it to files outside it. To files inside it, a folder below with its own line is closed.
# A test may include everything in its outermost folder.
MAY_INCLUDE = {
    "base": [],
    "proto": ["base"],
    "server/core": ["base"],
    "server/shell": ["server/core", "proto", "base"],
    "worker/core": ["base"],
    "worker/engine": ["base"],
    "worker/engine/collectives": ["base"],
    "worker/engine/collectives/local": ["worker/engine/collectives", "base"],
    "worker/engine/collectives/gloo": ["worker/engine/collectives", "base"],
    "worker/engine/collectives/nccl": ["worker/engine/collectives", "worker/engine/collectives/local", "base"],
    "worker/engine/collectives/testing": ["worker/engine/collectives", "worker/engine/collectives/nccl", "base"],
    "worker/engine/nn": ["base"],
    "worker/engine/data": ["worker/engine/device", "worker/engine/nn", "base"],
    "worker/engine/ddp": ["worker/engine/collectives", "worker/engine/nn", "base"],
    "worker/engine/device": ["worker/engine/nn", "base"],
    "worker/engine/device/cpu": ["worker/engine/device", "worker/engine/nn", "base"],
    "worker/engine/device/testing": [
        "worker/engine/device", "worker/engine/data", "worker/engine/ddp", "worker/engine/nn", "base",
    ],
    "worker/engine/device/cuda": [
        "worker/engine/device", "worker/engine/device/cuda/network", "worker/engine/device/cuda/runtime",
        "worker/engine/device/cuda/step", "base",
    ],
    "worker/engine/device/cuda/on_host": ["base"],
    "worker/engine/device/cuda/kernels": ["worker/engine/device/cuda/on_host", "worker/engine/nn", "base"],
    "worker/engine/device/cuda/runtime": ["base"],
    "worker/engine/device/cuda/plans": ["worker/engine/device/cuda/runtime", "base"],
    "worker/engine/device/cuda/libraries": [
        "worker/engine/device/cuda/kernels", "worker/engine/device/cuda/plans", "worker/engine/device/cuda/runtime",
        "base",
    ],
    "worker/engine/device/cuda/layers": ["worker/engine/device/cuda/runtime", "worker/engine/device", "base"],
    "worker/engine/device/cuda/network": [
        "worker/engine/device/cuda/kernels", "worker/engine/device/cuda/layers",
        "worker/engine/device/cuda/libraries", "worker/engine/device/cuda/plans", "worker/engine/device/cuda/runtime",
        "worker/engine/device", "worker/engine/data", "base",
    ],
    "worker/engine/device/cuda/step": [
        "worker/engine/device/cuda/kernels", "worker/engine/device/cuda/layers", "worker/engine/device/cuda/network",
        "worker/engine/device/cuda/runtime", "worker/engine/device", "worker/engine/ddp", "base",
    ],
    "worker/engine/device/cuda/testing": [
        "worker/engine/device/cuda/kernels", "worker/engine/device/cuda/libraries",
        "worker/engine/device/cuda/network", "worker/engine/device/cuda/plans", "worker/engine/device/cuda/runtime",
        "worker/engine/device", "worker/engine/device/cpu", "worker/engine/nn", "base",
    ],
    "worker/agent": ["worker/core", "client", "proto", "base"],
    "worker/trainer": ["worker/engine", "client", "proto", "base"],
    "client": ["proto", "base"],
    "client/dpctl": ["client", "proto", "base"],
    "tests": ["base", "proto", "server", "worker", "client"],
}
FOLDERS = ("base", "proto", "server", "worker", "client", "tests", "dp")

BANNED_IN_CORE = re.compile(
    r"#include <(thread|mutex|shared_mutex|condition_variable|atomic|chrono|fstream|iostream|cstdio|"
    r"random|filesystem|unordered_map|unordered_set|future|stop_token)>|"
    r"grpc|\.pb\.h|absl::Now|absl/synchronization|flat_hash|node_hash|std::thread|std::jthread|"
    r"base/(mutex|random|log|bounded_queue|clock|file_descriptor)\.h|base/store/wire/(server|mailbox|socket|tcp_)|"
    r"absl/time/clock\.h|\bgetenv\(|\btime\("
)

# Files outside the cores that follow the same rules.
PURE = re.compile(
    r"base/model/|base/store/(key_values|operation|awaited_keys|batch_codec|wire/(fields|protocol|request_parser|translation)|"
    r"relay/relay_ledger)|worker/engine/ddp/bucket_|worker/engine/data/sampler"
)

# Only files named after a backend may include its headers.
BACKENDS = {
    "gloo": re.compile(r'#include ["<]gloo/'),
    "nccl": re.compile(r'#include ["<]nccl\.h'),
    "cuda": re.compile(r'#include ["<](cuda|cublas|cudnn|nvml)'),
    "mpi": re.compile(r'#include ["<]mpi\.h'),
    "sqlite": re.compile(r'#include ["<]sqlite3\.h'),
    "cpu": re.compile(r'#include ["<](dnnl|oneapi/dnnl)'),
}

INCLUDE = re.compile(r'#include "([^"]+)"')


def is_in(path, folder):
    return path == folder or path.startswith(folder + "/")


def layers_around(path):
    """From the outermost to the innermost."""
    return sorted((layer for layer in MAY_INCLUDE if is_in(path, layer)), key=len)


def layer_of(path):
    return next(reversed(layers_around(path)), None)


def allowed(relative, layer, target):
    if relative.endswith("_test.cc") and is_in(target, layers_around(layer)[0]):
        return True
    folders = [layer, *MAY_INCLUDE[layer]]
    return any(layer_of(target) == folder if is_in(layer, folder) else is_in(target, folder) for folder in folders)


def included_path(header):
    """The path below the root that an include names; None for another project's header."""
    if header.startswith("dp/"):
        return "proto/" + header
    return header if header.split("/")[0] in FOLDERS else None


def backend_errors(name, line):
    for backend, pattern in BACKENDS.items():
        named_after = backend in name or (backend == "cuda" and "nccl" in name)
        if pattern.search(line) and not named_after:
            yield f"a header of {backend} outside a file named after it"


def line_errors(relative, layer, line):
    include = INCLUDE.search(line)
    target = included_path(include.group(1)) if include else None
    if target and not allowed(relative, layer, target):
        yield f"{layer} may not include {target}"
    is_pure = layer.endswith("/core") or PURE.match(relative)
    if is_pure and not relative.endswith("_test.cc"):
        code = line.split("//")[0]
        if BANNED_IN_CORE.search(code):
            yield "banned where decisions are pure"
    yield from backend_errors(pathlib.PurePath(relative).name, line)


def errors():
    for folder in sorted({layer.split("/")[0] for layer in MAY_INCLUDE}):
        for path in sorted((ROOT / folder).rglob("*")):
            relative = path.relative_to(ROOT).as_posix()
            layer = layer_of(relative)
            if layer is None or path.suffix not in (".h", ".cc", ".cu"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for error in line_errors(relative, layer, line):
                    yield f"{relative}:{number}: {error}: {line.strip()}"


def main():
    found = list(errors())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
