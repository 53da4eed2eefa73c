"""A rank has exited, and its daemon dies before the coordinator knows. The next daemon reports
the exit."""

import os
import signal
import unittest

from kit.cluster import Cluster, alive, eventually, guards_of


class LostExitTest(unittest.TestCase):
    def setUp(self):
        # No lease expires during a test, however slow the host is.
        self.cluster = self.enterContext(Cluster(lease="10m"))
        self.start_daemon()
        self.runs = self.cluster.dir / "runs"
        self.fifo = self.cluster.dir / "code"
        os.mkfifo(self.fifo)
        self.job = self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": "exits", "detectWithin": "10m", "grace": "10m",
            "command": {"argv": ["sh", "-c", f"echo run >> {self.runs}; read code < {self.fifo}; exit $code"]}})
        self.assertTrue(eventually(lambda: self.cluster.describe(self.job)["state"] == "RUNNING"))
        # The rank's read ends once somebody writes.
        self.rank = self.cluster.rank_pid(self.job, 0)

    def start_daemon(self):
        self.daemon = self.cluster.worker(name="worker-a")

    def start_coordinator(self):
        self.cluster.coordinator = self.cluster.start_coordinator(self.cluster.address)

    def exit_rank(self, code):
        self.fifo.write_text(f"{code}\n")

    def exit_rank_unseen(self, code):
        """The rank exits after the daemon has died, and before the guard notices."""
        guard, = guards_of(self.daemon)
        os.kill(guard, signal.SIGSTOP)
        self.daemon.kill()
        self.exit_rank(code)
        self.assertTrue(eventually(lambda: not alive(self.rank)))
        os.kill(guard, signal.SIGCONT)
        self.assertTrue(eventually(lambda: not alive(guard)))

    def assert_ended(self, state, exit_code):
        self.assertEqual(self.cluster.wait(self.job), exit_code,
                         self.cluster.dpctl("describe", self.job).stdout)
        described = self.cluster.describe(self.job)
        self.assertEqual((described["state"], described["generation"]), (state, 1))
        self.assertEqual(self.runs.read_text(), "run\n")
        return described

    def test_a_rank_that_exited_before_both_died_has_succeeded(self):
        self.cluster.coordinator.kill()
        self.exit_rank(0)
        self.assertTrue(eventually(lambda: "event=rank_exited" in self.daemon.log()))
        self.daemon.kill()
        self.start_coordinator()
        self.start_daemon()
        self.assert_ended("SUCCEEDED", 0)

    def test_a_rank_that_exited_after_both_died_has_succeeded(self):
        self.cluster.coordinator.kill()
        self.exit_rank_unseen(0)
        self.start_coordinator()
        self.start_daemon()
        self.assert_ended("SUCCEEDED", 0)

    def test_a_daemon_that_is_back_before_the_coordinator_waits_for_it(self):
        self.cluster.coordinator.kill()
        self.exit_rank_unseen(0)
        self.daemon = self.cluster.worker_in_background(name="worker-a")
        self.assertTrue(eventually(lambda: "event=coordinator_unreachable" in self.daemon.log()))
        self.start_coordinator()
        self.assert_ended("SUCCEEDED", 0)

    def test_a_rank_that_exited_while_its_daemon_was_dead_has_succeeded(self):
        self.exit_rank_unseen(0)
        self.start_daemon()
        self.assert_ended("SUCCEEDED", 0)

    def test_a_daemon_that_shuts_down_without_a_coordinator_leaves_the_exit_to_the_next_one(self):
        self.cluster.coordinator.kill()
        self.exit_rank(0)
        self.assertTrue(eventually(lambda: "event=rank_exited" in self.daemon.log()))
        self.assertEqual(self.daemon.stop(), 0)
        self.start_coordinator()
        self.start_daemon()
        self.assert_ended("SUCCEEDED", 0)

    def test_an_exit_code_fails_the_job_as_the_rank_s_own(self):
        self.cluster.coordinator.kill()
        self.exit_rank_unseen(33)
        self.start_coordinator()
        self.start_daemon()
        described = self.assert_ended("FAILED", 33)
        self.assertEqual((described["failureClass"], described["exitCode"]), ("user", 33))

    def test_a_job_that_was_cancelled_meanwhile_stays_cancelled(self):
        self.exit_rank_unseen(0)
        self.cluster.dpctl("cancel", self.job, check=0)
        self.start_daemon()
        self.assert_ended("CANCELLED", 103)

    def test_nothing_is_left_in_the_state_directory(self):
        self.exit_rank_unseen(0)
        state = self.cluster.dir / "state-worker-a"
        self.assertEqual([each.name for each in (state / "spool").glob("*/1/0.exit")], ["0.exit"])
        self.start_daemon()
        self.assert_ended("SUCCEEDED", 0)
        self.assertTrue(eventually(lambda: not list((state / "spool").glob("*"))))


if __name__ == "__main__":
    unittest.main()
