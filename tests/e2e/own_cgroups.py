"""Cgroups of a test's own, below those that the test runs in; a daemon may do there what it likes."""

import contextlib
import itertools
import os
import pathlib
import shutil

from leftovers import closed_on_error
from waiting import eventually

CGROUPS = pathlib.Path("/sys/fs/cgroup")
# As the daemon names hierarchies: where each is mounted, on a host of v2 alone and on a hybrid one.
MOUNTS = {"cgroup2": (CGROUPS, CGROUPS / "unified"), "freezer": (CGROUPS / "freezer",),
          "name=systemd": (CGROUPS / "systemd",), "memory": (CGROUPS / "memory",)}
JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs"; shift; done; shift; exec "$@"'
# Before a command: it runs as on a host without cgroups.
WITHOUT_CGROUPS = ["unshare", "-m", "sh", "-c", 'umount -R /sys/fs/cgroup; exec "$@"', "sh"]
_made = itertools.count()
HIDE = 'while [ "$1" != -- ]; do umount "$1"; shift; done; shift; exec "$@"'


def mount_of(hierarchy):
    """None where it is not mounted."""
    for folder in MOUNTS[hierarchy]:
        is_v2 = (folder / "cgroup.controllers").exists()
        if (folder / "cgroup.procs").exists() and is_v2 == (hierarchy == "cgroup2"):
            return folder
    return None


def _own_path(hierarchy):
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, names, path = line.split(":", 2)
        if hierarchy in names.split(",") or (hierarchy == "cgroup2" and number == "0"):
            return mount_of(hierarchy) / path.lstrip("/")
    return mount_of(hierarchy)


def why_not(hierarchy):
    """Why a daemon cannot have cgroups of that hierarchy here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root to make cgroups"
    if mount_of(hierarchy) is None:
        return f"cgroups of {hierarchy} are not mounted"
    if not os.access(_own_path(hierarchy) / "cgroup.procs", os.W_OK):
        return f"cgroups of {hierarchy} may not be written"
    return "" if shutil.which("unshare") else "needs the program unshare"


def why_not_hidden():
    """Why cgroups cannot be hidden from a daemon here; empty when they can."""
    if os.geteuid() != 0:
        return "needs root to hide cgroups"
    return "" if shutil.which("unshare") else "needs the program unshare"


class OwnCgroups(contextlib.ExitStack):
    """with OwnCgroups("freezer") as own: a program started with prefix=own.prefix finds the freezer as
    the best hierarchy to track processes by, and its own cgroups in own.dir."""

    def __init__(self, hierarchy):
        super().__init__()
        self._made = {}
        hidden = []
        with closed_on_error(self):
            for each in MOUNTS:
                if each == hierarchy:
                    hierarchy = None  # those after it stay to be seen
                elif hierarchy and mount_of(each):
                    hidden.append(mount_of(each))
                    continue
                if not why_not(each):
                    self._make(each)
            self.dir = next(iter(self._made.values()))
        self.prefix = ["sh", "-c", JOIN, "sh", *map(str, self._made.values()), "--"]
        if hidden:
            self.prefix += ["unshare", "-m", "sh", "-c", HIDE, "sh", *map(str, hidden), "--"]

    def _make(self, hierarchy):
        made = _own_path(hierarchy) / f"dp-test-{os.getpid()}-{next(_made)}"
        made.mkdir()
        self.callback(remove, made)
        with contextlib.suppress(OSError):  # as systemd marks what is a service's own; not on v1
            os.setxattr(made, "trusted.delegate", b"1")
        self._made[hierarchy] = made

    def below(self, hierarchy=None):
        """The names of the cgroups that were made there."""
        folder = self._made[hierarchy] if hierarchy else self.dir
        return sorted(each.name for each in folder.iterdir() if each.is_dir())


def remove(folder):
    """Programs in it have been ended by their owners, or are ended here."""
    def empty():
        for procs in folder.rglob("cgroup.procs"):
            for pid in procs.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
        return not any(procs.read_text() for procs in folder.rglob("cgroup.procs"))
    if not eventually(empty):
        raise RuntimeError(f"processes in {folder} do not end")
    for below in sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True):
        below.rmdir()
    folder.rmdir()
