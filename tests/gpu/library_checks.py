"""Checks of libdp_distributed: over NCCL, where each rank is a process that calls every verb; and DataParallel on the
GPUs of one process."""

import contextlib
import pathlib
import subprocess
import tempfile

import gpu_host
from checks import Failed, Skipped, last_lines, stop
from group_checks import ending, place

# Fakes of NCCL and of CUDA's runtime, with which a host without a GPU tries the checks.
FAKES = "fake_cuda"


def environment(programs, rank, rehearses, shares):
    if rehearses:
        folder = programs.tests / FAKES
        if not folder.exists():
            raise Skipped(f"{FAKES} is not in {programs.origin}")
        return {**gpu_host.environment(), "LD_LIBRARY_PATH": str(folder), "FAKE_CUDA_DEVICES": "8", "NCCL_RAS_ENABLE": "0"}
    return {**gpu_host.environment(), **(place(rank) if shares else {})}


def conformance(programs, size, limit, gpus=1, rehearses=False):
    """`size` ranks, on as many GPUs or all on one."""
    if gpus > 1 and not rehearses and gpu_host.first_gpu().count < gpus:
        raise Skipped(f"needs {gpus} GPUs")
    program = programs.test("library_rank")
    with tempfile.TemporaryDirectory(prefix="dp-library-") as folder, contextlib.ExitStack() as started:
        processes = []
        for rank in range(size):
            command = [program, "--method", f"file://{pathlib.Path(folder) / 'store'}", "--rank", rank, "--size", size,
                       "--device", rank if gpus > 1 else 0]
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, errors="replace", env=environment(programs, rank, rehearses, gpus == 1))
            started.callback(process.stdout.close)
            started.callback(stop, process)
            processes.append(process)
        for rank, process in enumerate(processes):
            code, output = ending(rank, process, limit)
            if code != 0:
                raise Failed(f"rank {rank} ended with {code}\n{last_lines(output)}")
    return f"{output.count('ok: ')} properties on {size} rank{'s' if size > 1 else ''}"


def devices(programs, gpus, limit, rehearses=False):
    """DataParallel on `gpus` GPUs of one process, without NCCL."""
    if not rehearses and gpu_host.first_gpu().count < gpus:
        raise Skipped(f"needs {gpus} GPUs")
    command = [str(programs.test("library_devices")), "--gpus", str(gpus)]
    with contextlib.ExitStack() as started:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env=environment(programs, 0, rehearses, shares=False))
        started.callback(process.stdout.close)
        started.callback(stop, process)
        code, output = ending(0, process, limit)
    if code != 0:
        raise Failed(f"the process ended with {code}\n{last_lines(output)}")
    return f"{output.count('ok: ')} properties on {gpus} GPU{'s' if gpus > 1 else ''}"
