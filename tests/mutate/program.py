"""Runs one test program with limits on time, memory and disk, and leaves no process behind."""

import ctypes
import dataclasses
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time

_PR_SET_CHILD_SUBREAPER = 36
# Limits of one test program. A mutant that exceeds them counts as caught.
MEMORY_MAX = 4 << 30
FILE_MAX = 16 << 30
# Fewer seeds: planted bugs and fixed seeds find most of what the simulation can find.
OPTIONS = {"tests/dp_simulation_test": ["--seeds=80"], "tests/dp_replay_test": []}
_FAILED_TEST = re.compile(r"^\[  FAILED  \] (\w+\S*)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Ended:
    passed: bool
    why: str  # the failed test, or how the program ended
    seconds: float


def adopt_orphans():
    """Orphans become children of this process from now on. End them with `end_orphans`."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _children():
    own = pathlib.Path(f"/proc/{os.getpid()}/task")
    return [int(pid) for each in own.glob("*/children") for pid in each.read_text().split()]


def end_orphans():
    """Kills the processes that a test program has left, by their ids, and then their children.
    This process must have no other children."""
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def _bound():
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(program, options, within_s):
    """Runs a GoogleTest program, which stops at its first failure."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dp-mutate-") as folder, open(f"{folder}/output", "w+b") as output:
        process = subprocess.Popen([program, "--gtest_fail_fast", *options], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, preexec_fn=_bound, env={**os.environ, "TMPDIR": folder})
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_orphans_of(process)
        output.seek(0)
        said = output.read().decode(errors="replace")
    return Ended(code == 0, _why(code, said), time.monotonic() - began)


def end_orphans_of(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    end_orphans()


def _why(code, said):
    if code is None:
        running = re.findall(r"^\[ RUN      \] (\S+)", said, re.MULTILINE)
        return f"out of time in {running[-1]}" if running else "out of time"
    failed = _FAILED_TEST.search(said)
    if failed:
        return failed[1].rstrip(",")
    return "passed" if code == 0 else f"ended with {code}"
