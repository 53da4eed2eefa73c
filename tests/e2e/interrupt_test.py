"""Ctrl-C at the terminal of `dpctl run` detaches, cancels or ends a local cluster. Last output
of ranks is still shown."""

import unittest

from kit.cluster import Cluster, alive, eventually
from kit.terminal import CTRL_C, Terminal

# Prints its pid, then waits for SIGTERM, on which it writes once more.
POLITE = "trap 'echo saving; exit 3' TERM; echo pid $$; tail -f /dev/null & wait"
# Ignores SIGTERM.
STUBBORN = "trap '' TERM; echo pid $$; tail -f /dev/null & wait"


def pid_on(terminal):
    return int(terminal.until_match(r"\] pid (\d+)\r?\n")[1])


class InterruptTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())

    def run_at_terminal(self, script, *flags):
        command = [*self.cluster.dpctl_command(), "run", *flags, "--", "sh", "-c", script]
        terminal = self.enterContext(Terminal(command))
        self.pid = pid_on(terminal)
        return terminal

    def test_ctrl_c_detaches_and_the_job_goes_on(self):
        self.cluster.worker()
        terminal = self.run_at_terminal(POLITE)
        terminal.press(CTRL_C)
        self.assertEqual(terminal.end(), 101, terminal.output)
        self.assertIn("detached; job 1 goes on", terminal.output)
        self.assertTrue(eventually(lambda: self.cluster.describe(1)["state"] == "RUNNING"))

    def test_ctrl_c_twice_cancels_and_shows_what_the_rank_writes_on_its_way_out(self):
        self.cluster.worker()
        terminal = self.run_at_terminal(POLITE)
        terminal.press(CTRL_C)
        terminal.until("detached; job 1 goes on")  # two signals at once would count as one
        terminal.press(CTRL_C)
        self.assertEqual(terminal.end(), 103, terminal.output)
        self.assertIn("] saving", terminal.output)
        self.assertEqual(self.cluster.describe(1)["state"], "CANCELLED")

    def test_ctrl_c_ends_a_local_job_and_shows_what_the_rank_writes_on_its_way_out(self):
        terminal = self.run_at_terminal(POLITE, "--local")
        terminal.press(CTRL_C)
        self.assertEqual(terminal.end(), 103, terminal.output)
        self.assertIn("] saving", terminal.output)
        self.assertIn("job 1 was cancelled", terminal.output)
        self.assertTrue(eventually(lambda: not alive(self.pid)))

    def test_ctrl_c_twice_does_not_wait_for_a_local_rank(self):
        terminal = self.run_at_terminal(STUBBORN, "--local")
        terminal.press(CTRL_C)
        terminal.until("is being cancelled")
        terminal.press(CTRL_C)
        self.assertEqual(terminal.end(), 103, terminal.output)
        self.assertIn("interrupted; the job ends with", terminal.output)
        self.assertTrue(eventually(lambda: not alive(self.pid)))


if __name__ == "__main__":
    unittest.main()
