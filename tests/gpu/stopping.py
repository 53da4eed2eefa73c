"""A command leaves nothing behind, however it ends. A signal that ends it raises an exception, so that whatever was
started ends in order. Anything left then is killed, and the one folder that holds all others is removed."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_CHILD_SUBREAPER = 36
# How long the kernel may take to end killed processes; a process that waits for a broken device never ends.
KILLED_S = 20


class Stopped(BaseException):
    """Raised by a signal. No `except Exception` takes it for a failure of one check."""


class Signals:
    """The first signal raises Stopped, while that is wanted. Later ones do nothing, since the end has begun."""

    def __init__(self):
        self.number, self._raises = None, True

    def listen(self):
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and shells ignore some
                signal.signal(number, self._take)

    def _take(self, number, _frame):
        if self._raises and self.number is None:
            self.number = number
            raise Stopped(number)

    def raise_no_more(self):
        self._raises = False


def adopt_orphans():
    """If a child of this process ends before its own children, this process becomes their parent."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(of):
    """The process ids of all descendants of `of`."""
    children = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended since
            parent = status.read_text(errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(status.parent.name))
    found = [of]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def kill_the_rest(seconds=KILLED_S):
    """Kills all descendants of this process. A process that is forked meanwhile is found when its parent ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    end = time.monotonic() + seconds
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended and signal.sigtimedwait({signal.SIGCHLD}, max(0, end - time.monotonic())) is None:
            return


def leaving_nothing(name, main):
    """`main(scratch)` returns an exit code, and makes its folders with `tempfile`. Returns that code; if a signal ended
    it, 128 plus the signal's number."""
    signals, scratch, code = Signals(), None, None
    try:
        signals.listen()
        adopt_orphans()
        scratch = tempfile.tempdir = tempfile.mkdtemp(prefix="dp-gpu-")
        code = main(pathlib.Path(scratch))
    except BaseException:  # including whatever ending in a hurry raised
        if signals.number is None:
            raise
    finally:
        signals.raise_no_more()
        kill_the_rest()
        if scratch:
            tempfile.tempdir = None
            shutil.rmtree(scratch, ignore_errors=True)
    if signals.number is None:
        return code
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"{name}: ended by {signal.Signals(signals.number).name}, with what it had started", file=sys.stderr)
    return 128 + signals.number
