"""A root tree of a test's own, and a way to run a program as process 1 in it.

All effects of the program stay inside. It has its own user, mount, process, network, host name,
IPC and cgroup namespaces. Its users are numbers that own nothing on this machine. The tree is a
folder that is deleted afterwards. The program sees null, zero, full and the random numbers of
the machine's /dev, and nothing of its /run, /var and /tmp.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

FIRST_UID = 1_000_000  # root inside; 65536 numbers from here on
UIDS = 65536
CGROUPS = pathlib.Path("/sys/fs/cgroup")

_CLONE_NEWNS = 0x00020000
_CLONE_NEWCGROUP = 0x02000000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_ALL = (_CLONE_NEWNS | _CLONE_NEWCGROUP | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWUSER |
        _CLONE_NEWPID | _CLONE_NEWNET)
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_RDONLY = 2, 4, 8, 1
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_REMOUNT = 4096, 16384, 1 << 18, 32
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_SYS_PIVOT_ROOT = 155  # x86-64
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """Why no program can be run in its own tree here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root, to give the numbers of the tree's users"
    if unified_cgroups() is None:
        return "needs cgroup v2 to be mounted"
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _libc.unshare(_ALL) == 0 else 1)
    return "" if os.waitpid(pid, 0)[1] == 0 else "namespaces cannot be made here"


def unified_cgroups():
    """The mount point of cgroup v2, alone or beside v1; None if it is not mounted."""
    for folder in (CGROUPS, CGROUPS / "unified"):
        if (folder / "cgroup.procs").exists() and (folder / "cgroup.controllers").exists():
            return folder
    return None


def packages_with_dependencies(names):
    """The installed packages that `names` need to run. Raises LookupError if one is not
    installed."""
    format_ = "${Package}\t${Status}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    listing = subprocess.run(["dpkg-query", "-W", f"-f={format_}"], check=True, text=True,
                             capture_output=True).stdout
    needs, providers = {}, {}
    for line in listing.splitlines():
        name, status, provides, depends = line.split("\t")
        if not status.endswith(" installed"):
            continue
        needs[name] = [[_bare(each) for each in group.split("|")] for group in depends.split(",")]
        for each in [name, *provides.split(",")]:
            providers.setdefault(_bare(each), name)
    found, wanted = set(), list(names)
    while wanted:
        name = wanted.pop()
        if name not in needs:
            raise LookupError(f"the package {name} is not installed")
        if name not in found:
            found.add(name)
            for group in needs[name]:
                present = [providers[each] for each in group if each in providers]
                wanted += present[:1]
    return sorted(found)


def _bare(dependency):
    return re.split(r"[ :(]", dependency.strip())[0]


def files_of(packages):
    """The files that the packages installed, without documentation and translations."""
    listing = subprocess.run(["dpkg-query", "-L", *packages], check=True, text=True,
                             capture_output=True).stdout
    unneeded = re.compile(r"/usr/share/(doc|man|info|locale|lintian|bug)\b")
    return [path for path in listing.splitlines() if path.startswith("/") and
            not unneeded.match(path) and os.path.lexists(path)]


@dataclasses.dataclass
class Container:
    """Runs a tree like a container: as this user, who may write only to the volumes."""

    user: int
    volumes: tuple


class OwnRoot(contextlib.ExitStack):
    """A folder that becomes the root of a program. Leaving the context deletes it.

    with OwnRoot() as root:
        root.add_packages("systemd", "bash")
        root.write("etc/hostname", "machine")
        root.boot(["/lib/systemd/systemd"])
        root.run("systemctl", "is-system-running", "--wait")
    """

    def __init__(self):
        super().__init__()
        # Other users may pass through the folder: the tree's users own nothing on this machine.
        outer = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="dp-root-")))
        outer.chmod(0o711)
        self.path = outer / "root"
        self.console = outer / "console"
        self.path.mkdir()
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.path / "usr" / name).mkdir(parents=True)
            (self.path / name).symlink_to(f"usr/{name}")
        for name in ("proc", "sys", "dev", "run", "tmp", "var", "etc", "root", "opt", "srv"):
            (self.path / name).mkdir()
        self._process = None

    def add_packages(self, *names):
        self.add_files(files_of(packages_with_dependencies(names)))

    def add_files(self, paths):
        """Copies files of this machine to the same paths in the tree."""
        for path in paths:
            source = pathlib.Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            target = self.path / str(source)[1:]
            if source.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.is_symlink():
                    target.symlink_to(os.readlink(source))
                target_file = os.path.realpath(source)
                if os.path.isfile(target_file):
                    self.add_files([target_file])
            elif source.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            elif source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def add_libraries_of(self, programs):
        """Copies the libraries that the loader would use for these programs on this machine."""
        listing = subprocess.run(["ldd", *programs], check=True, capture_output=True, text=True).stdout
        self.add_files(sorted(set(re.findall(r"(?:=> |^\s+)(/\S+) \(", listing, re.MULTILINE))))

    def write(self, name, text, mode=0o644):
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def boot(self, command, environment=None, container=None):
        """Runs the command as process 1 of the tree; its output goes to self.console. Returns
        when the command runs."""
        cgroup = self._make_cgroup()
        self._give_away(self.path)
        trouble, tell = os.pipe()
        with open(self.console, "wb") as console:
            self._process = os.fork()
            if self._process == 0:
                _die_with_parent()
                _become_init(self.path, cgroup, command, environment or {}, container,
                             console.fileno(), tell)
        self.callback(self._end)
        os.close(tell)
        with open(trouble) as told:  # ends when the command is executed
            reason = told.read()
        if reason:
            raise OSError(f"{command[0]} cannot be run in a tree of its own: {reason}")

    def inside(self, *command, user=0):
        """Returns the words that, run on this machine, run the command in the tree."""
        return ["/usr/bin/nsenter", "--target", str(self.pid()), "--all", "--setuid", str(user),
                "--setgid", str(user), *map(str, command)]

    def run(self, *command, check=True, timeout_s=240, user=0, environment=None):
        """Runs a command in the tree."""
        inside = self.inside(*command, user=user)
        variables = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin", "HOME": "/root", **(environment or {})}
        done = subprocess.run(inside, capture_output=True, text=True, timeout=timeout_s, env=variables)
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def pid(self):
        """The process id of process 1, as this machine counts."""
        children = pathlib.Path(f"/proc/{self._process}/task/{self._process}/children")
        return int(children.read_text().split()[0])

    def _give_away(self, folder):
        for top, folders, files in os.walk(folder):
            for name in (".", *folders, *files):
                os.chown(os.path.join(top, name), FIRST_UID, FIRST_UID, follow_symlinks=False)

    def _make_cgroup(self):
        cgroup = unified_cgroups() / f"dp-test-{os.getpid()}"
        cgroup.mkdir()
        self.callback(_remove_cgroups, cgroup)
        for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(cgroup / name, FIRST_UID, FIRST_UID)
        return cgroup

    def _end(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)


def _remove_cgroups(top):
    """Removes the cgroups of processes that are all exiting."""
    kill = top / "cgroup.kill"
    if kill.exists():
        kill.write_text("1")
    for folder, _, _ in os.walk(top, topdown=False):
        while True:
            try:
                os.rmdir(folder)
                break
            except OSError:
                _wait_empty(folder)


def _wait_empty(folder):
    """Waits until the kernel reports the cgroup as empty; its events file can be polled."""
    with open(f"{folder}/cgroup.events") as events:
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        while "populated 1" in events.read():
            if not poll.poll(30_000):
                raise TimeoutError(f"{folder} still holds processes")
            events.seek(0)


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source, target, kind=None, flags=0, options=None):
    text = [None if each is None else str(each).encode() for each in (source, target, kind, options)]
    _check(_libc.mount(text[0], text[1], text[2], flags, text[3]), f"mount {target}")


def _become_init(root, cgroup, command, environment, container, console, trouble):
    """Runs in a forked process and never returns. Process 1 is the child of the process that
    enters the namespaces."""
    try:
        os.setsid()
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        ready, go = os.pipe(), os.pipe()
        mapper = os.fork()
        if mapper == 0:
            _map_users(os.getppid(), ready[0], go[1])
        _check(_libc.unshare(_ALL), "unshare")
        os.write(ready[1], b".")
        if os.read(go[0], 1) != b".":
            raise RuntimeError("users were not mapped")
        os.waitpid(mapper, 0)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        _die_with_parent()
        first = os.fork()
        if first == 0:
            _die_with_parent()
            for number in (0, 1, 2):
                os.dup2(console if number else os.open("/dev/null", os.O_RDONLY), number)
            _enter(root, container)
            os.execve(command[0], command, {"container": "dp-test", "PATH": "/usr/sbin:/usr/bin",
                                            **environment})
        os.close(trouble)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xff)
    except BaseException as error:  # the test framework must not continue in a forked copy
        os.write(trouble, f"{error}\n".encode())
        os._exit(125)


def _map_users(pid, ready, go):
    """Runs outside the namespace, whose first user may not map other users' numbers."""
    os.read(ready, 1)
    for name in ("uid_map", "gid_map"):
        pathlib.Path(f"/proc/{pid}/{name}").write_text(f"0 {FIRST_UID} {UIDS}")
    os.write(go, b".")
    os._exit(0)


def _raise_loopback():
    """Brings up loopback: in a new network namespace nobody else does so before the first
    program."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _enter(root, container):
    _raise_loopback()
    volumes = container.volumes if container else ()
    for path in volumes:
        (root / path[1:]).mkdir(parents=True, exist_ok=True)
    safe = _MS_NOSUID | _MS_NODEV
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount(root, root, None, _MS_BIND)
    _mount("proc", root / "proc", "proc", safe | _MS_NOEXEC)
    # Process 1 must not change kernel settings.
    _mount(root / "proc/sys", root / "proc/sys", None, _MS_BIND)
    _mount(None, root / "proc/sys", None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | safe | _MS_NOEXEC)
    _mount("sysfs", root / "sys", "sysfs", safe | _MS_NOEXEC | _MS_RDONLY)
    _mount("cgroup2", root / "sys/fs/cgroup", "cgroup2", safe | _MS_NOEXEC)
    _mount("tmpfs", root / "dev", "tmpfs", _MS_NOSUID, "mode=755")
    for name in ("null", "zero", "full", "random", "urandom"):
        (root / "dev" / name).touch()
        _mount(f"/dev/{name}", root / "dev" / name, None, _MS_BIND)
    for name in ("dev/shm", "run", "tmp"):
        (root / name).mkdir(exist_ok=True)
        _mount("tmpfs", root / name, "tmpfs", safe, "mode=755" if name == "run" else "mode=1777")
    (root / "dev/pts").mkdir()
    _mount("devpts", root / "dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666")
    (root / "dev/ptmx").symlink_to("pts/ptmx")
    for path in volumes:
        options = f"uid={container.user},gid={container.user},mode=2775"
        _mount("tmpfs", root / path[1:], "tmpfs", safe, options)
    if container:
        _mount(None, root, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)
    os.chdir(root)
    _check(_libc.syscall(_SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")
    if container:
        os.setresgid(container.user, container.user, container.user)
        os.setresuid(container.user, container.user, container.user)
