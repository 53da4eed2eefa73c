"""The cost of an idle job: no process uses CPU time, or wakes up, to find that there is nothing
to do."""

import dataclasses
import os
import pathlib
import re
import sys
import unittest

from kit import host_cgroups
from kit.cluster import Cluster, eventually
from kit.wire_client import wire_job

RANKS = 4
WATCH_S = 5
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
# At most 3 % of one processor for each server. Daemons read their spools ten times a second, and
# send heartbeats.
TICKS_MAX = 0.03 * TICKS_A_SECOND * WATCH_S
WAKE_UPS_MAX = 100 * WATCH_S
WAITER = r"(?m)^key +go +rank \d on worker-\d "
SLEEPER = "import signal; print('asleep', flush=True); signal.pause()"


@dataclasses.dataclass
class Use:
    """The CPU time that a process's threads have used so far, and their number of wake-ups."""
    ticks: int
    wake_ups: int

    def __sub__(self, other):
        return Use(self.ticks - other.ticks, self.wake_ups - other.wake_ups)


def use_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    wake_ups = sum(int(line.split()[1]) for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status")
                   for line in status.read_text().splitlines() if line.startswith("voluntary"))
    return Use(int(fields[11]) + int(fields[12]), wake_ups)


def children_of(pid):
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


class IdleTest(unittest.TestCase):
    """Two hosts with an equal number of ranks, under default settings."""

    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.daemons = [self.cluster.worker(slots=RANKS // 2, name=f"worker-{i}") for i in range(2)]

    def guards(self):
        return [guard for daemon in self.daemons for guard in children_of(daemon.pid)]

    def watch(self, job):
        """{process: its usage} over a period in which the coordinator has nothing to report
        about the job."""
        ranks = [rank["pid"] for rank in self.cluster.describe(job)["ranks"]]
        guards = self.guards()
        self.assertEqual(len(guards), RANKS)
        self.assertEqual(sorted(rank for guard in guards for rank in children_of(guard)), sorted(ranks))
        servers = {"coordinator": self.cluster.coordinator.pid,
                   **{f"daemon {i}": daemon.pid for i, daemon in enumerate(self.daemons)}}
        watched = {**servers, **{f"guard {i}": pid for i, pid in enumerate(guards)},
                   **{f"rank {i}": pid for i, pid in enumerate(ranks)}}
        self.await_rest(job, [*guards, *ranks])
        before = {who: use_of(pid) for who, pid in watched.items()}
        self.dpctl_wait(job)
        used = {who: use_of(pid) - before[who] for who, pid in watched.items()}
        for who, use in used.items():
            print(f"{who}: {use.ticks} ticks, {use.wake_ups} wake-ups in {WATCH_S} s", file=sys.stderr)
        return used

    def await_rest(self, job, pids):
        """Returns when no process has run while the coordinator answered a question."""
        def rest():
            before = [use_of(pid) for pid in pids]
            self.cluster.describe(job)
            return before == [use_of(pid) for pid in pids]
        self.assertTrue(eventually(rest))

    def dpctl_wait(self, job):
        done = self.cluster.dpctl("wait", job, "--timeout", f"{WATCH_S}s")
        self.assertEqual(done.returncode, 101, done.stderr)  # still running

    def assert_idle(self, job):
        for who, use in self.watch(job).items():
            if who in ("coordinator", "daemon 0", "daemon 1"):
                self.assertLessEqual(use.ticks, TICKS_MAX, who)
                self.assertLessEqual(use.wake_ups, WAKE_UPS_MAX, who)
            else:
                self.assertEqual(use, Use(0, 0), who)

    def test_daemons_track_processes_as_by_default(self):
        for daemon in self.daemons:
            by = "guard" if host_cgroups.tracking() == "guard" else "cgroup hierarchy=cgroup2"
            self.assertIn(f"event=process_tracking by={by}", daemon.log())

    def test_ranks_that_sleep(self):
        job = self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": "asleep", "ranks": RANKS,
            "command": {"argv": [sys.executable, "-c", SLEEPER]}})
        self.cluster.follow_until_each(job, "asleep", RANKS)
        self.assert_idle(job)

    def test_ranks_that_wait_for_a_key_of_their_store(self):
        job = self.cluster.submit(wire_job("hold", ranks=RANKS))
        self.cluster.follow_until_each(job, "holding", RANKS)
        waiters = lambda: re.findall(WAITER, self.cluster.dpctl("store", "waiters", job).stdout)  # noqa: E731
        self.assertTrue(eventually(lambda: len(waiters()) == RANKS))
        self.assert_idle(job)


if __name__ == "__main__":
    unittest.main()
