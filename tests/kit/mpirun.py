"""Programs that mpirun starts: on this host, or on hosts of a test."""

import os
import pathlib
import shlex
import signal
import subprocess

from kit.waiting import alive, eventually

# Tests run as root in containers, on few cores.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
MPIRUN_ENDS_S = 10  # behind its ranks


def on_this_host(ranks, transports="self,vader,tcp"):
    """The words before a program, for so many ranks on this host. Open MPI looks at no other network."""
    return [*MPIRUN, *over("lo"), "--mca", "btl", transports, "-n", str(ranks)]


def over(interface):
    return ["--mca", "btl_tcp_if_include", interface, "--mca", "oob_tcp_if_include", interface]


def on_hosts(hosts, numbers, per_host, folder, *options):
    """The same for `per_host` ranks on each of the hosts, the first of which runs mpirun. Ranks go over the network
    between the hosts, and `folder` gets Open MPI's files."""
    agent = folder / "agent"  # in place of ssh
    cases = "".join(f'{hosts.name(n)}) exec {shlex.join(hosts.prefix(n))} sh -c "$*";;\n' for n in numbers)
    agent.write_text(f'#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}esac\nexit 1\n')
    agent.chmod(0o755)
    listed = ",".join(f"{hosts.name(n)}:{per_host}" for n in numbers)
    return [*hosts.prefix(numbers[0]), *MPIRUN, *options, "--host", listed, "--mca", "plm_rsh_agent", str(agent),
            "--mca", "orte_tmpdir_base", str(folder), "-n", str(per_host * len(numbers))]


def run(command, folder):
    """Runs the command; returns its exit code, the lines of the ranks and what mpirun said. Leaves no process behind
    on this host."""
    with open(folder / "out", "w+") as out, open(folder / "err", "w+") as err:
        with subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True) as started:
            try:
                eventually(lambda: started.poll() is not None or _ranks_are_dead(started.pid))
                # At times mpirun of Open MPI 4.1 does not end after a rank has failed.
                eventually(lambda: started.poll() is not None, MPIRUN_ENDS_S)
            finally:
                if started.poll() is None:
                    os.killpg(started.pid, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        return started.returncode, sorted(out.read().splitlines()), err.read()


def _ranks_are_dead(mpirun):
    ranks = pathlib.Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
    return bool(ranks) and not any(alive(rank) for rank in ranks)
