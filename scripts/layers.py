#!/usr/bin/env python3
"""Checks the arrows of ARCHITECTURE.md: which folder may include which, and what a core may not use.

Prints every line that breaks a rule and exits with 1; otherwise prints nothing and exits with 0.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def rooms(folder, names):
    return [f"{folder}/{name}" for name in names.split()]


SERVER_CORE = ["server/policy", "server/core", "server/core/access", "base/security", "store", "base"]
SERVER_CALLS = ["server/convert", "server/callers", "server/driver", "proto", *SERVER_CORE]
COLLECTIVES = ["worker/engine/collectives", *rooms("worker/engine/collectives", "local exchange gloo mpi cuda nccl shm hierarchical"), "store", "base"]
ENGINE = [*COLLECTIVES, *rooms("worker/engine", "ddp nn data device device/replicas plugin")]
CUDA = "worker/engine/device/cuda"
AGENT_ROOMS = rooms("worker/agent", "accounts sandbox processes gpus spool launch stores")
TRAINER_ROOMS = rooms("worker/trainer", "model checkpoint loop inference program")
CALLER = ["client", "proto", "store", "base"]
DPCTL = ["client/dpctl", "client/dpctl/local", "client/job", "client/weights", "client", "proto/job", "proto/weights", "proto", "base/data", "base/security", "base"]

# A folder may include itself and the folders listed for it. The longest matching prefix of a file decides. A
# folder with its own line is not part of the folder above it.
MAY_INCLUDE = {
    "base": [],
    "base/program": ["base"],
    "base/model": ["base"],
    "base/checksum": [],
    # Readers of data files: the engine trains on them, dpctl checks and describes them.
    "base/data": ["base/data/text", "base", "base/model"],
    "base/data/text": ["base"],
    "base/security": ["base"],
    "store": ["base"],
    "store/wire": ["store", "base"],
    "store/relay": ["store", "base"],
    "proto": ["store", "base"],
    "proto/job": ["proto", "base/data", "base"],
    "proto/weights": ["proto/job", "proto", "base"],
    "server/core": ["server/core/access", "base/security", "store", "base"],
    "server/core/access": ["base/security", "base"],
    "server/policy": ["server/core", "server/core/access", "base/security", "store", "base"],
    "server/driver": SERVER_CORE,
    "server/logs": ["server/driver", *SERVER_CORE],
    "server/callers": ["server/driver", "proto", *SERVER_CORE],
    "server/convert": ["server/logs", "server/callers", "server/driver", "proto", *SERVER_CORE],
    "server/journal": SERVER_CALLS,
    "server/tcpstore": ["store/wire", "store/relay", *SERVER_CALLS],
    "server/access": ["base/security", *SERVER_CALLS],
    "server/connections": ["server/access", "base"],
    # The parameter service runs the engine's optimizers, and adds gradients up as the ranks do.
    "server/parameters/core": ["worker/engine/nn", "worker/engine/collectives/reduce", "base"],
    "server/parameters": ["server/parameters/core", "server/driver", "worker/engine/nn", "proto", *SERVER_CORE],
    "server/rpc": ["server/connections", "server/access", "proto/job", "server/logs", "server/parameters", "base/security", *SERVER_CALLS],
    "server/rpc/parameters": ["server/rpc", "server/access", "server/parameters", "server/parameters/core", "worker/engine/nn", *SERVER_CALLS],
    "server/program": ["server/access", "base/security", "server/connections", "server/rpc", "server/tcpstore", "server/journal", "server/logs", "server/parameters", "store/wire", *SERVER_CALLS],
    "worker/core": ["base"],
    "worker/engine/collectives": ["store", "base"],
    # Sums in order, also those of the parameter service.
    "worker/engine/collectives/reduce": ["base"],
    "worker/engine/collectives/local": ["worker/engine/collectives", "store", "base"],
    "worker/engine/collectives/exchange": ["worker/engine/collectives", "store", "base"],
    "worker/engine/collectives/gloo": ["worker/engine/collectives", "store", "base"],
    "worker/engine/collectives/mpi": [*rooms("worker/engine/collectives", "exchange"), "worker/engine/collectives", "store", "base"],
    "worker/engine/collectives/hierarchical": [*rooms("worker/engine/collectives", "gloo shm"), "worker/engine/collectives", "store", "base"],
    "worker/engine/collectives/cuda": ["base"],
    "worker/engine/collectives/nccl": ["store/wire", *COLLECTIVES],
    "worker/engine/collectives/shm": ["worker/engine/collectives", "store", "base"],
    # libdp_distributed links no more of data than the sampler.
    "worker/library": [*rooms("worker/engine/collectives", "local exchange gloo mpi cuda nccl shm hierarchical"), *rooms("worker/engine", "collectives data ddp nn"), "store/wire", "store", "base"],
    # A module of libdp_distributed, which alone links CUDA's runtime.
    "worker/library/cuda": ["worker/library", *rooms("worker/engine", "collectives device/cuda/arrays device/cuda/kernels"), "base"],
    # A module of libdp_distributed, which alone links gRPC.
    "worker/library/grpc": ["worker/library", *CALLER],
    # libdp_engine is a library of its own.
    "worker/library/engine": ["worker/library", *rooms("worker/engine", "device nn"), "base"],
    "worker/engine/nn": ["base"],
    "worker/engine/data": ["worker/engine/device", "worker/engine/nn", "base/data", "base/data/text", "base"],
    "worker/engine/ddp": ["worker/engine/collectives", "worker/engine/nn", "base"],
    "worker/engine/device": ["worker/engine/nn", "base"],
    "worker/engine/plugin": ["worker/engine/nn", "base"],
    "worker/engine/device/cpu": ["worker/engine/device", "worker/engine/nn", "base"],
    "worker/engine/device/replicas": ["worker/engine/device", "worker/engine/collectives", "worker/engine/nn", "base"],
    CUDA: [*rooms(CUDA, "arrays network runtime snapshots step"), "worker/engine/device", "base"],
    f"{CUDA}/on_host": ["base"],
    f"{CUDA}/kernels": [*rooms(CUDA, "on_host"), "worker/engine/nn", "base"],
    f"{CUDA}/arrays": [*rooms(CUDA, "kernels on_host"), "worker/engine/nn", "base"],
    f"{CUDA}/attention": [*rooms(CUDA, "kernels on_host"), "base"],
    f"{CUDA}/images": [*rooms(CUDA, "kernels on_host"), "base"],
    f"{CUDA}/losses": [*rooms(CUDA, "kernels on_host"), "base"],
    f"{CUDA}/random": [*rooms(CUDA, "kernels on_host"), "base"],
    f"{CUDA}/runtime": ["base"],
    f"{CUDA}/plans": [*rooms(CUDA, "runtime"), "base"],
    f"{CUDA}/libraries": [*rooms(CUDA, "attention kernels plans runtime"), "base"],
    f"{CUDA}/layers": [*rooms(CUDA, "kernels runtime"), "worker/engine/device", "base"],
    f"{CUDA}/network": [*rooms(CUDA, "arrays attention images kernels layers libraries losses plans random runtime"), *rooms("worker/engine", "device data nn"), "base"],
    f"{CUDA}/snapshots": [*rooms(CUDA, "network runtime"), "worker/engine/device", "base"],
    f"{CUDA}/step": [*rooms(CUDA, "kernels losses layers network runtime"), *rooms("worker/engine", "device ddp"), "base"],
    "worker/agent/accounts": ["base"],
    "worker/agent/sandbox": ["base"],
    "worker/agent/processes": [*rooms("worker/agent", "accounts sandbox"), "worker/core", "base"],
    "worker/agent/gpus": ["worker/agent/processes", "worker/core", "proto", "base"],
    "worker/agent/spool": ["worker/agent/accounts", "worker/agent/processes", "worker/core", *CALLER],
    "worker/agent/launch": [*rooms("worker/agent", "accounts sandbox spool processes"), "worker/core", "proto/job", "proto", "base"],
    "worker/agent/stores": ["worker/agent/launch", "worker/agent/processes", "store/wire", "store/relay", *CALLER],
    "worker/agent": [*AGENT_ROOMS, "worker/core", "store/wire", "base/security", "proto/job", *CALLER],
    "worker/trainer": ["base"],
    "worker/trainer/model": ["proto/weights", "proto/job", "base/data", *ENGINE, *CALLER],
    "worker/trainer/checkpoint": ["client/weights", "proto/weights", "worker/trainer/model", "worker/trainer", *ENGINE, *CALLER],
    "worker/trainer/loop": ["worker/trainer/checkpoint", "worker/trainer/model", "worker/trainer", *ENGINE, *CALLER],
    "worker/trainer/inference": [*rooms("worker/trainer", "checkpoint loop model"), "worker/trainer", "proto/weights", "proto/job", "base/data", "base/data/text", *ENGINE, *CALLER],
    "worker/trainer/program": ["proto/weights", *TRAINER_ROOMS, "worker/trainer", *ENGINE, *CALLER],
    "client": ["store/relay", "store", "proto", "base/security", "base"],
    "client/job": ["proto/job", "proto", "base/data", "base"],
    "client/weights": ["client", "proto/weights", "proto", "base/data", "base"],
    "client/dpctl/local": ["base"],
    "client/dpctl": DPCTL,
    "client/dpctl/view": DPCTL,
    "client/dpctl/run": ["client/dpctl/view", *DPCTL],
    "client/dpctl/verbs": ["client/dpctl/run", "client/dpctl/view", *DPCTL],
    "client/dpctl/program": ["client/dpctl/verbs", "client/dpctl/run", "client/dpctl/view", *DPCTL],
    "tests": [],
}
# Whoever may use base, or the collectives, may use its rooms.
for layer, folders in MAY_INCLUDE.items():
    if "worker/engine/collectives" in (layer, *folders):
        MAY_INCLUDE[layer] = folders = [*folders, "worker/engine/collectives/reduce"]
    if "base" in folders and not layer.startswith("base/"):
        MAY_INCLUDE[layer] = [*folders, "base/program", "base/model", "base/checksum"]

# Tests may include these besides the folders of their module. The checks of a job are tested with job files.
TESTS_ALSO_INCLUDE = {"proto/job": ["client/job"]}

# Fixtures and doubles: below testing/ of the folder whose parts they use.
TESTING = "/testing/"
# More are several modules. Verbs of dpctl have one file each.
FILES_MAX = 45
NO_LIMIT = ("client/dpctl/verbs",)
FOLDERS = ("base", "store", "proto", "server", "worker", "client", "tests", "dp")

BANNED_IN_CORE = re.compile(
    r"#include <(thread|mutex|shared_mutex|condition_variable|atomic|chrono|fstream|iostream|cstdio|"
    r"random|filesystem|unordered_map|unordered_set|future|stop_token)>|"
    r"grpc|\.pb\.h|absl::Now|absl/synchronization|flat_hash|node_hash|std::thread|std::jthread|"
    r"base/(mutex|random|bounded_queue|clock|file_descriptor)\.h|base/program/|store/wire/(server|mailbox|socket|tcp_)|"
    r"absl/time/clock\.h|\bgetenv\(|\btime\("
)

# Files outside the cores that follow the same rules.
PURE = re.compile(
    r"base/(model|checksum)/|store/(key_values|operation|awaited_keys|batch_codec|wire/(fields|protocol|request_parser|translation)|"
    r"relay/relay_ledger)|worker/engine/ddp/bucket_|worker/engine/data/sampler|"
    r"worker/engine/collectives/(shm/spin_policy|hierarchical/host_plan)"
)

# Only files named after a backend may include its headers.
BACKENDS = {
    "gloo": re.compile(r'#include ["<]gloo/'),
    "mpi": re.compile(r'#include ["<]mpi\.h'),
    "nccl": re.compile(r'#include ["<]nccl\.h'),
    "cuda": re.compile(r'#include ["<](cuda|cublas|cudnn|nvml)'),
    "mpi": re.compile(r'#include ["<]mpi\.h'),
    "sqlite": re.compile(r'#include ["<]sqlite3\.h'),
    "cpu": re.compile(r'#include ["<](dnnl|oneapi/dnnl)'),
}

INCLUDE = re.compile(r'#include "([^"]+)"')


def layer_of(path):
    prefixes = [layer for layer in MAY_INCLUDE if path == layer or path.startswith(layer + "/")]
    return max(prefixes, key=len, default=None)


def reach_of_tests(path):
    """The folders whose headers a test may use: those that its module's folders may use."""
    parts = path.split("/")
    module = "/".join(parts[:2] if parts[0] == "worker" else parts[:1])
    folders = [layer for layer in MAY_INCLUDE if layer == module or layer.startswith(module + "/")]
    also = TESTS_ALSO_INCLUDE.get(layer_of(path), [])
    return set(folders).union(also, *(MAY_INCLUDE[folder] for folder in folders))


def allowed(source, target):
    if source.startswith("tests/"):
        return True
    if source.endswith("_test.cc") or TESTING in source:
        return TESTING in target or layer_of(target) in reach_of_tests(source)
    return TESTING not in target and layer_of(target) in (layer_of(source), *MAY_INCLUDE[layer_of(source)])


def included_path(header):
    """The path below the root that an include names; None for another project's header."""
    if header.startswith("dp/v1/"):
        return "proto/" + header
    if header in ("dp/layers.h", "dp/plugin.h", "dp/plugin_abi.h"):
        return "base/model/include/" + header
    if header.startswith("dp/"):
        return "worker/library/include/" + header
    return header if header.split("/")[0] in FOLDERS else None


def backend_errors(name, line):
    for backend, pattern in BACKENDS.items():
        named_after = backend in name or (backend == "cuda" and "nccl" in name)
        if pattern.search(line) and not named_after:
            yield f"a header of {backend} outside a file named after it"


def line_errors(relative, layer, line):
    include = INCLUDE.search(line)
    target = included_path(include.group(1)) if include else None
    if target and not allowed(relative, target):
        yield f"{layer} may not include {target}"
    is_pure = layer.endswith(("/core", "/policy")) or PURE.match(relative)
    if is_pure and not relative.endswith("_test.cc"):
        code = line.split("//")[0]
        if BANNED_IN_CORE.search(code):
            yield "banned where decisions are pure"
    yield from backend_errors(pathlib.PurePath(relative).name, line)


def is_production(relative):
    return TESTING not in relative and not relative.endswith("_test.cc")


def sources():
    """Paths of all sources that belong to a layer, below the root."""
    for folder in sorted({layer.split("/")[0] for layer in MAY_INCLUDE}):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu"):
                yield path.relative_to(ROOT).as_posix()


def errors():
    folders = collections.Counter()
    for relative in sources():
        layer = layer_of(relative)
        if layer is None:
            continue
        if is_production(relative) and layer != "tests":
            folders[str(pathlib.PurePath(relative).parent)] += 1
        for number, line in enumerate((ROOT / relative).read_text().splitlines(), 1):
            for error in line_errors(relative, layer, line):
                yield f"{relative}:{number}: {error}: {line.strip()}"
    for folder, files in folders.items():
        if files > FILES_MAX and folder not in NO_LIMIT:
            yield f"{folder}: {files} files, {FILES_MAX} at most: it is more than one module, divide it"


def main():
    found = list(errors())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
