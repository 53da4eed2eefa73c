"""Tries what a program of another user must not do. Each argument is a process's id, the path of a
file that it must not read, or that of a directory that it must not change. Prints, as JSON, each
attempt that the system let it do."""

import contextlib
import ctypes
import json
import os
import pathlib
import sys

PTRACE_SEIZE = 0x4206  # unlike an attach, it does not stop the process


def attach(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        raise PermissionError(ctypes.get_errno(), "ptrace")


def attempts(target):
    if target.isdigit():
        pid = int(target)
        yield "signal", lambda: os.kill(pid, 0)
        yield "trace", lambda: attach(pid)
        for name in ("environ", "maps", "mem"):
            yield name, lambda name=name: pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
        for name in ("fd", "cwd"):
            yield name, lambda name=name: os.listdir(f"/proc/{pid}/{name}")
    elif pathlib.Path(target).suffix == ".d":
        yield "list", lambda: os.listdir(target.removesuffix(".d"))
        yield "write", lambda: (pathlib.Path(target.removesuffix(".d")) / "planted").write_text("x")
    else:
        yield "read", lambda: pathlib.Path(target).read_bytes()
        yield "write", lambda: open(target, "ab").close()
        yield "remove", lambda: os.remove(target)


done = []
for each in sys.argv[1:]:
    for name, attempt in attempts(each):
        with contextlib.suppress(PermissionError):
            attempt()
            done.append(f"{name} {each}")
print(json.dumps(done), flush=True)
