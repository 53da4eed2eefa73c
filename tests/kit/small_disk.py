"""A small disk for a test: a tmpfs of bounded size in a mount namespace of its own."""

import contextlib
import os
import pathlib
import shutil
import subprocess

from kit.leftovers import closed_on_error

HOLD = 'mount -t tmpfs -o "size=$1,mode=755" disk "$2" && echo ready && exec cat'


def why_not():
    """Why a small disk cannot be made here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root to mount a file system"
    for program in ("unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"needs the program {program}"
    probe = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "disk", "/mnt"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        return "file systems cannot be mounted here"
    return ""


class SmallDisk(contextlib.ExitStack):
    """with SmallDisk(folder, "100m") as disk: a program started with prefix=disk.prefix sees a
    disk of that size at `folder`; the test sees it at disk.path."""

    def __init__(self, folder, size):
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        # The namespace lasts as long as this process, which ends when its standard input does.
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", HOLD, "sh", size, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.callback(self._close)
        with closed_on_error(self):
            if self._holder.stdout.readline() != "ready\n":
                raise RuntimeError(f"no disk of {size} at {folder}")
        self.prefix = ["nsenter", f"--target={self._holder.pid}", "--mount", "--"]
        self.path = pathlib.Path(f"/proc/{self._holder.pid}/root") / folder.relative_to("/")

    def _close(self):
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()

    def available(self):
        usage = os.statvfs(self.path)
        return usage.f_bavail * usage.f_frsize

    def fill(self, leave=0):
        """Fills the disk up to `leave` bytes, with a file beside the existing ones."""
        # Unbuffered: a buffer that a full disk rejects would raise again on close.
        with open(self.path / "filler", "ab", buffering=0) as filler:
            while (room := self.available() - leave) > 0:
                try:
                    filler.write(b"x" * min(1 << 16, room))
                except OSError:
                    return

    def clear(self):
        (self.path / "filler").unlink()
