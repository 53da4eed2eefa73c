"""Cgroups of a test's own, below the test's own cgroup. A daemon may change them freely."""

import contextlib
import itertools
import os
import pathlib
import shutil

from kit.leftovers import closed_on_error
from kit.waiting import eventually

CGROUPS = pathlib.Path("/sys/fs/cgroup")
# Hierarchies by the daemon's names. Each may be mounted at these places, on a host with only v2 and
# on a hybrid host.
MOUNTS = {"cgroup2": (CGROUPS, CGROUPS / "unified"), "freezer": (CGROUPS / "freezer",),
          "name=systemd": (CGROUPS / "systemd",), "memory": (CGROUPS / "memory",)}
JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs"; shift; done; shift; exec "$@"'
# Put before a command, this runs the command as on a host without cgroups.
WITHOUT_CGROUPS = ["unshare", "-m", "sh", "-c", 'umount -R /sys/fs/cgroup; exec "$@"', "sh"]
_made = itertools.count()
HIDE = 'while [ "$1" != -- ]; do umount "$1"; shift; done; shift; exec "$@"'


def mount_of(hierarchy):
    """The hierarchy's mount point; None if it is not mounted."""
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
    """Why a daemon cannot have cgroups of that hierarchy here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root to make cgroups"
    if mount_of(hierarchy) is None:
        return f"cgroups of {hierarchy} are not mounted"
    if not os.access(_own_path(hierarchy) / "cgroup.procs", os.W_OK):
        return f"cgroups of {hierarchy} may not be written"
    return "" if shutil.which("unshare") else "needs the program unshare"


def why_not_hidden():
    """Why cgroups cannot be hidden from a daemon here; empty if they can."""
    if os.geteuid() != 0:
        return "needs root to hide cgroups"
    return "" if shutil.which("unshare") else "needs the program unshare"


class OwnCgroups(contextlib.ExitStack):
    """with OwnCgroups("freezer") as own: a program started with prefix=own.prefix finds the
    freezer as the best hierarchy to track processes by. Its cgroups are below own.dir."""

    def __init__(self, hierarchy):
        super().__init__()
        self._made = {}
        hidden = []
        with closed_on_error(self):
            for each in MOUNTS:
                if each == hierarchy:
                    hierarchy = None  # hierarchies after this one stay visible
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
        with contextlib.suppress(OSError):  # systemd's mark of a service's own cgroup; not on v1
            os.setxattr(made, "trusted.delegate", b"1")
        self._made[hierarchy] = made

    def below(self, hierarchy=None):
        """The names of the cgroups made below own.dir, or below the one of `hierarchy`."""
        folder = self._made[hierarchy] if hierarchy else self.dir
        return sorted(each.name for each in folder.iterdir() if each.is_dir())


def remove(folder):
    """Kills programs that are left in the cgroups, and removes the cgroups."""
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
