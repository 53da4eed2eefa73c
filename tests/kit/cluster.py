"""Real processes for end-to-end tests: a coordinator, worker daemons and dpctl, on loopback.

A Cluster starts each program as a user would, and waits for the line that reports it as ready.
On leaving, it kills everything that it started. No test sleeps: waiting means reading a line, a
process's end, or `eventually`, which pauses between its questions.
"""

import contextlib
import json
import os
import pathlib
import random
import selectors
import signal
import socket
import subprocess
import tempfile
import time

from kit.host_cgroups import HostCgroups
from kit.leftovers import closed_on_error
from kit.waiting import TIMEOUT_S, alive, eventually  # noqa: F401: for the tests

BIN = pathlib.Path(os.environ["DP_BIN"])
# The flags of a daemon whose jobs run as its own user, even if that is root.
AS_SELF = ["--run-as", "self", "--allow-root"]


class Program:
    """One running server; `line` is the line that it printed when it was ready."""

    def __init__(self, args, log_path, prefix=(), env=None, wait=True):
        self.log_path = pathlib.Path(log_path)
        self._log = open(log_path, "wb")
        self.process = subprocess.Popen(
            [*prefix, *map(str, args)], stdout=subprocess.PIPE, stderr=self._log,
            env={**os.environ, **(env or {})})
        with closed_on_error(self):
            self.line = self._read_line() if wait else None

    def _read_line(self):
        deadline = time.monotonic() + TIMEOUT_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0, deadline - time.monotonic())):
                    raise TimeoutError(f"not ready: {self.log_path.read_text()}")
                byte = os.read(self.process.stdout.fileno(), 1)
                if not byte:
                    raise RuntimeError(f"ended before it was ready: {self.log_path.read_text()}")
                line += byte
        return line.decode().strip()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def send(self, number):
        self.process.send_signal(number)

    def freeze(self):
        """SIGSTOP; returns when every thread has stopped, because sending the signal alone does
        not ensure this."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self):
        self.send(signal.SIGCONT)

    def kill(self):
        """SIGKILL; returns when the process is gone."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def stop(self):
        """SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.process.wait(TIMEOUT_S)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        self.process.stdout.close()
        self._log.close()


class Cluster(contextlib.ExitStack):
    """with Cluster() as cluster: cluster.worker(slots=2); cluster.dpctl("ps")"""

    def __init__(self, **coordinator_options):
        super().__init__()
        self._coordinator_options = coordinator_options
        self._programs = 0
        with closed_on_error(self):
            self.cgroups = self.enter_context(HostCgroups())
            self.dir = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="dp-e2e-")))
            self.coordinator = self.start_coordinator("127.0.0.1:0")
            self.address = self.coordinator.line.split()[-1]

    def program(self, *args, **how):
        self._programs += 1
        program = Program(args, self.dir / f"program-{self._programs}.log", **how)
        self.callback(program.close)
        return program

    def set_coordinator_option(self, name, value):
        """Takes effect at the coordinator's next start; None takes the option away."""
        self._coordinator_options[name] = value
        if value is None:
            del self._coordinator_options[name]

    def start_coordinator(self, listen, **how):
        options = [f"--{name.replace('_', '-')}={value}"
                   for name, value in self._coordinator_options.items()]
        return self.program(BIN / "dp-coordinator", "--listen", listen,
                            "--data-dir", self.dir / "coordinator", *options, **how)

    def restart_coordinator(self):
        """SIGKILL, then a new process on the same address and data."""
        self.coordinator.kill()
        self.coordinator = self.start_coordinator(self.address)

    def worker(self, slots=1, name=None, options=(), prefix=(), run_as=AS_SELF, **how):
        """A daemon with default settings, on a host with the cluster's cgroups. By default its jobs
        run as the tests' own user, as those of `dpctl run --local` do."""
        args = [BIN / "dp-worker", "--coordinator", self.address, "--slots", slots,
                "--state-dir", self.dir / f"state-{name or self._programs}", *run_as, *options]
        if name:
            args += ["--name", name]
        return self.program(*args, prefix=[*self.cgroups.prefix, *prefix], **how)

    def worker_in_background(self, **how):
        """A worker that need not be ready yet."""
        return self.worker(wait=False, **how)

    def dpctl_command(self):
        return [BIN / "dpctl", "--coordinator", self.address]

    def dpctl(self, *args, timeout_s=TIMEOUT_S, check=None, cwd=None, env=None):
        """Runs dpctl with `env` added to its environment; with `check`, its exit code must be
        equal."""
        done = subprocess.run([*self.dpctl_command(), *map(str, args)],
                              capture_output=True, text=True, timeout=timeout_s, cwd=cwd, env={**os.environ, **(env or {})})
        if check is not None and done.returncode != check:
            raise AssertionError(f"dpctl {args} ended with {done.returncode}, not {check}\n"
                                 f"{done.stdout}\n{done.stderr}")
        return done

    def submit(self, job):
        """Submits a job given as a dict; returns its id."""
        path = self.dir / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        name = self.dpctl("submit", path, "-o", "name", check=0).stdout.strip()
        return name.split("/")[-1]

    def describe(self, job):
        return json.loads(self.dpctl("describe", job, "-o", "json", check=0).stdout)

    def wait(self, job, timeout_s=TIMEOUT_S):
        """Waits until the job ends; returns dpctl's exit code."""
        return self.dpctl("wait", job, "--timeout", f"{timeout_s}s",
                          timeout_s=timeout_s + 10).returncode

    def rank_pid(self, job, rank):
        return self.describe(job)["ranks"][rank]["pid"]

    def resume_rank(self, job, rank):
        """Continues a stopped rank, for example at a fault point."""
        os.kill(self.rank_pid(job, rank), signal.SIGCONT)

    def follow_until(self, job, text, timeout_s=TIMEOUT_S):
        """Follows the job's log until a line contains `text`."""
        return self.follow_until_each(job, text, 1, timeout_s)[0]

    def follow_until_each(self, job, text, ranks, timeout_s=TIMEOUT_S):
        """Follows the job's log until `ranks` lines contain `text`; returns these lines."""
        found = []
        with subprocess.Popen([*self.dpctl_command(), "logs", "-f", job],
                              stdout=subprocess.PIPE, text=True) as logs:
            timer = time.monotonic() + timeout_s
            try:
                for line in logs.stdout:
                    if text in line:
                        found.append(line)
                    if len(found) == ranks:
                        return found
                    if time.monotonic() > timer:
                        break
            finally:
                logs.kill()
        raise AssertionError(f"no '{text}' in the log of job {job}")


# Below the kernel's ephemeral ports, and below the default of --store-ports.
PORTS = range(15000, 29000)
PORTS_PER_CLAIM = 20
_claims = []


def free_ports(count):
    """A range of unused loopback ports, in the format of --store-ports. No other process gets
    these ports from this function until this process ends."""
    assert count <= PORTS_PER_CLAIM
    while True:
        first = random.randrange(PORTS.start, PORTS.stop, PORTS_PER_CLAIM)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0dp-test-ports-{first}")  # an abstract name ends with its process
            with contextlib.ExitStack() as sockets:
                for port in range(first, first + count):
                    sockets.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return f"{first}-{first + count - 1}"


def guards_of(daemon):
    """The processes between a daemon and its ranks."""
    children = pathlib.Path(f"/proc/{daemon.pid}/task").glob("*/children")
    return [int(pid) for file in children for pid in file.read_text().split()]
