"""Hosts for a test: network namespaces with an address and a host name each, on one bridge."""

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess


_CLONE_NEWNET = 0x40000000  # os.unshare is in Python 3.12 and later
_made = itertools.count()


def why_not():
    """Why hosts cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"needs the program {program}"
    probe = f"dp-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        return "network namespaces cannot be made here"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return ""


def _run(*args):
    subprocess.run(args, check=True, capture_output=True)


def take_own_loopback():
    """Gives this process, and all that it starts, a loopback interface on which no other test can
    call it, until the process ends. Call it before any thread starts. Where network namespaces
    cannot be made, the process keeps the interface of the host."""
    if why_not():
        return
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    _run("ip", "link", "set", "lo", "up")


class Hosts(contextlib.ExitStack):
    """with Hosts(2) as hosts: a program started with prefix=hosts.prefix(0) runs on the first
    host, whose address is hosts.address(0). Names contain this process's id and a count, so that
    tests can run side by side."""

    def __init__(self, count):
        super().__init__()
        self._count = count
        self._tag = f"dp{os.getpid()}x{next(_made)}"
        self._switch = f"{self._tag}sw"
        self._add(self._switch)
        self._in(self._switch, "ip", "link", "add", "bridge", "type", "bridge")
        self._in(self._switch, "ip", "link", "set", "bridge", "up")
        for number in range(count):
            self._add_host(number)

    def _add(self, namespace):
        _run("ip", "netns", "add", namespace)
        self.callback(subprocess.run, ["ip", "netns", "del", namespace], capture_output=True)

    def _in(self, namespace, *command):
        _run("ip", "netns", "exec", namespace, *command)

    def _add_host(self, number):
        host = self._host(number)
        self._add(host)
        _run("ip", "link", "add", f"port{number}", "netns", self._switch, "type", "veth",
             "peer", "name", "eth0", "netns", host)
        self._in(self._switch, "ip", "link", "set", f"port{number}", "master", "bridge", "up")
        self._in(host, "ip", "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        self._in(host, "ip", "link", "set", "eth0", "up")
        self._in(host, "ip", "link", "set", "lo", "up")

    def _host(self, number):
        return f"{self._tag}h{number}"

    def name(self, number):
        """The host name that programs on this host see."""
        return f"host-{number}"

    def address(self, number):
        return f"10.77.0.{number + 1}"

    def prefix(self, number):
        """The words before a command that run it on this host."""
        return ["ip", "netns", "exec", self._host(number), "unshare", "--uts", "sh", "-c",
                f'hostname {self.name(number)} && exec "$@"', "sh"]

    def processes(self):
        """The numbers of all processes that run on the hosts."""
        listed = [subprocess.run(["ip", "netns", "pids", host], check=True, capture_output=True, text=True).stdout
                  for host in map(self._host, range(self._count))]
        return " ".join(listed).split()

    def cut(self, number):
        """Takes the host's link down."""
        self._in(self._host(number), "ip", "link", "set", "eth0", "down")

    def heal(self, number):
        self._in(self._host(number), "ip", "link", "set", "eth0", "up")

    def unplug(self, number):
        """Takes the switch's end of the link down. The host cannot detect this, and still
        reaches itself by its address."""
        self._in(self._switch, "ip", "link", "set", f"port{number}", "down")

    def plug(self, number):
        self._in(self._switch, "ip", "link", "set", f"port{number}", "up")
