"""Checks of Group with ranks that are processes, all on one GPU: whether they work, never how fast."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import gpu_host
from checks import CANNOT_RUN, Failed, Skipped, keep, last_lines, stop
from reading import until

# NCCL rejects two ranks on one GPU unless they seem to be on different hosts. Only the network, here loopback, then
# connects them. Buffers are small and blocks few, since all ranks share the GPU.
ONE_GPU = {
    "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0", "NCCL_RAS_ENABLE": "0", "NCCL_MAX_CTAS": "2", "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple", "NCCL_BUFFSIZE": str(1 << 20),
}
TIMEOUT_S = 60
# The deadline of an operation, by which a survivor notices at the latest.
NOTICE_S = 20
ENDED_BY_ERROR = 3


def place(number):
    """The environment in which rank `number` can share the GPU with others."""
    return {**ONE_GPU, "NCCL_HOSTID": f"dp-test-{os.getpid()}-{number}"}


@contextlib.contextmanager
def ranks(programs, size, backend, *options):
    """The processes of a group; those that still run are stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="dp-group-") as folder, contextlib.ExitStack() as started:
        yield [start(programs, folder, rank, size, backend, options, started) for rank in range(size)]


def start(programs, folder, rank, size, backend, options, started):
    command = [programs.test("group_rank"), "--store", pathlib.Path(folder) / "store", "--rank", rank,
               "--size", size, "--backend", backend, *options]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               env={**gpu_host.environment(), **place(rank)})
    started.callback(process.stdout.close)
    started.callback(stop, process)
    return process


def ending(rank, process, limit):
    """(exit code, output) of a rank that must exit by itself."""
    try:
        output = process.communicate(timeout=limit.left())[0]
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0]
        keep(process.args, "stood still", output)
        raise Failed(f"rank {rank} stands still\n{last_lines(output)}") from None
    keep(process.args, process.returncode, output)
    if process.returncode == CANNOT_RUN:
        raise Skipped(last_lines(output))
    return process.returncode, output


def conformance(programs, size, limit, backend="nccl"):
    with ranks(programs, size, backend, "--timeout-s", TIMEOUT_S) as processes:
        for rank, process in enumerate(processes):
            code, output = ending(rank, process, limit)
            if code != 0:
                raise Failed(f"rank {rank} ended with {code}\n{last_lines(output)}")
    return f"{output.count('ok: ')} properties on {size} rank{'s' if size > 1 else ''}"


def killed_rank(programs, limit, backend="nccl"):
    """The others must exit with an error, not hang."""
    with ranks(programs, 3, backend, "--until", "error", "--timeout-s", NOTICE_S) as processes:
        for process in processes:
            until("reducing", process, limit)
        processes[-1].kill()
        for rank, process in enumerate(processes[:-1]):
            code, output = ending(rank, process, limit)
            if code != ENDED_BY_ERROR:
                raise Failed(f"rank {rank} ended with {code}\n{last_lines(output)}")
    return last_lines(output).splitlines()[-1]
