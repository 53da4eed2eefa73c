"""A cluster whose start fails leaves no process, folder or cgroup behind."""

import unittest

from kit.cluster import Cluster, alive


class Broken(Cluster):
    """Starts a program, then fails."""

    def start_coordinator(self, listen, **how):
        self.started.append(self)
        self.sleeper = self.program("sleep", "infinity", wait=False)
        raise KeyboardInterrupt


class ClusterTest(unittest.TestCase):
    def test_a_start_that_fails_leaves_nothing(self):
        Broken.started = []
        with self.assertRaises(KeyboardInterrupt):
            Broken()
        [cluster] = Broken.started
        self.assertFalse(alive(cluster.sleeper.pid))
        self.assertFalse(cluster.dir.exists())
        made = getattr(cluster.cgroups, "own", None)
        self.assertFalse(made and made.dir.exists())

    def test_a_program_that_ends_before_it_is_ready_is_closed(self):
        with Cluster() as cluster:
            with self.assertRaisesRegex(RuntimeError, "ended before it was ready"):
                cluster.program("true")


if __name__ == "__main__":
    unittest.main()
