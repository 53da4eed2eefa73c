"""No process that a rank has started survives the rank, however the rank ends and whatever the
process does."""

import json
import os
import pathlib
import signal
import unittest

from kit import own_cgroups
from kit.cluster import Cluster, alive, eventually, guards_of

FAMILY = pathlib.Path(__file__).parent / "programs/stubborn_family.py"
FAMILY_SIZE = 5


def freeze_and_kill(guards, daemon):
    """Kills the daemon and its guards. The guards are stopped first, so that none reacts to the
    daemon's end."""
    for guard in guards:
        os.kill(guard, signal.SIGSTOP)
    daemon.kill()
    for guard in guards:
        os.kill(guard, signal.SIGKILL)


class OrphansTest:
    """Tests for each way to track a rank's processes."""

    tracking = "auto"
    daemons = 0

    def setUp(self):
        self.cluster = self.enterContext(Cluster(lease="2s"))
        self.daemon = self.start_daemon()

    def prefix(self):
        return []

    def start_daemon(self):
        self.daemons += 1
        return self.cluster.worker(name=f"worker-{self.daemons}", prefix=self.prefix(),
                                   options=["--process-tracking", self.tracking])

    def family(self):
        """A job whose rank is a running stubborn family, and the pids of its processes."""
        folder = self.cluster.dir / f"family-{self.daemons}"
        folder.mkdir()
        job = self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": f"family-{self.daemons}", "grace": "0.1s",
            "restart": {"infra": 0}, "command": {"argv": ["python3", str(FAMILY), str(folder)]}})
        self.cluster.follow_until(job, "READY")
        pids = [int(each.name) for each in folder.iterdir()]
        self.assertEqual(len(pids), FAMILY_SIZE)
        self.assertTrue(all(map(alive, pids)))
        return job, pids

    def assert_ended(self, pids):
        ended = eventually(lambda: not any(map(alive, pids)))
        self.assertTrue(ended, self.daemon.log())

    def free_slots(self):
        table = json.loads(self.cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
        return sum(one["freeSlots"] for one in table if one["state"] == "READY")

    def test_cancel_leaves_none(self):
        job, pids = self.family()
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertEqual([pid for pid in pids if alive(pid)], [])  # gone before the job is over
        self.assertEqual(self.free_slots(), 1)

    def test_a_killed_daemon_leaves_none(self):
        _, pids = self.family()
        self.daemon.kill()
        self.assert_ended(pids)

    def test_a_lost_coordinator_leaves_none(self):
        _, pids = self.family()
        self.cluster.coordinator.freeze()
        self.assert_ended(pids)

    def test_a_killed_guard_leaves_none(self):
        job, pids = self.family()
        for guard in guards_of(self.daemon):
            os.kill(guard, signal.SIGKILL)
        self.assertEqual(self.cluster.wait(job), 128 + signal.SIGKILL,
                         self.cluster.dpctl("describe", job).stdout)
        self.assertEqual([pid for pid in pids if alive(pid)], [])


class GuardTest(OrphansTest, unittest.TestCase):
    tracking = "guard"

    def test_the_daemon_says_how_it_keeps_track(self):
        self.assertIn("event=process_tracking by=guard", self.daemon.log())


class CgroupTest(OrphansTest, unittest.TestCase):
    tracking = "cgroup"
    hierarchy = "cgroup2"

    def setUp(self):
        reason = own_cgroups.why_not(self.hierarchy)
        if reason:
            self.skipTest(reason)
        self.own = self.enterContext(own_cgroups.OwnCgroups(self.hierarchy))
        super().setUp()

    def prefix(self):
        return self.own.prefix

    def test_the_daemon_says_how_it_keeps_track(self):
        self.assertIn("event=process_tracking by=cgroup", self.daemon.log())
        self.assertIn(f"cgroup={self.own.dir}/dp-worker.", self.daemon.log())

    def test_what_survives_a_daemon_and_its_guards_is_ended_by_the_next_daemon(self):
        _, pids = self.family()
        freeze_and_kill(guards_of(self.daemon), self.daemon)
        self.assertTrue(any(map(alive, pids)))  # nobody was left to kill them
        self.daemon = self.start_daemon()
        self.assertEqual([pid for pid in pids if alive(pid)], [])
        self.assertIn("event=stale_cgroup_killed", self.daemon.log())
        self.assertEqual(len(self.own.below()), 1)

    def test_a_daemon_that_ends_leaves_no_cgroup(self):
        job, _ = self.family()
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertEqual(self.daemon.stop(), 0)
        self.assertEqual(self.own.below(), [])


class FreezerTest(CgroupTest):
    """A host without v2."""
    hierarchy = "freezer"


class NamedHierarchyTest(CgroupTest):
    """A host without v2, and no freezer."""
    hierarchy = "name=systemd"


class TrackingTest(unittest.TestCase):
    def test_cgroups_that_are_asked_for_and_cannot_be_had_end_the_daemon_with_the_reason(self):
        reason = own_cgroups.why_not("cgroup2")
        if reason:
            self.skipTest(reason)
        with Cluster() as cluster:
            daemon = cluster.worker_in_background(options=["--process-tracking", "cgroup"],
                                                  prefix=own_cgroups.WITHOUT_CGROUPS)
            self.assertEqual(daemon.process.wait(60), 1)
            self.assertIn("no cgroup can be made for ranks: no cgroups are mounted", daemon.log())
            other = cluster.worker(options=["--process-tracking", "auto"],
                                   prefix=own_cgroups.WITHOUT_CGROUPS)
            self.assertIn("event=process_tracking by=guard no_cgroup=", other.log())


if __name__ == "__main__":
    unittest.main()
