"""The memory limit of a rank."""

import unittest

from kit import own_cgroups
from kit.cluster import Cluster, eventually

TAKE = "x = bytearray({} << 20); print('has it', flush=True)"


class MemoryLimitTest(unittest.TestCase):
    def setUp(self):
        reason = own_cgroups.why_not("cgroup2") or own_cgroups.why_not("memory")
        if reason:
            self.skipTest(f"{reason}; the limit is tried on a host with v1 beside v2")
        self.own = self.enterContext(own_cgroups.OwnCgroups("cgroup2"))
        self.cluster = self.enterContext(Cluster())

    def run_job(self, name, mib):
        return self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": name, "memoryMibPerRank": 64,
            "command": {"argv": ["python3", "-c", TAKE.format(mib)]}})

    def test_a_rank_that_takes_more_than_its_job_allows_fails_for_want_of_memory(self):
        daemon = self.cluster.worker(options=["--process-tracking", "cgroup"], prefix=self.own.prefix)
        self.assertIn("memory_limited_by=memory", daemon.log())
        modest = self.run_job("modest", 8)
        self.assertEqual(self.cluster.wait(modest), 0, self.cluster.dpctl("logs", modest).stdout)
        greedy = self.run_job("greedy", 300)
        self.assertNotEqual(self.cluster.wait(greedy), 0)
        self.assertEqual(self.cluster.describe(greedy)["failureClass"], "oom")
        self.assertNotIn("has it", self.cluster.dpctl("logs", greedy).stdout)

    def test_a_worker_that_cannot_hold_to_it_gets_no_rank_and_the_job_says_why(self):
        self.cluster.worker(name="lax", options=["--process-tracking", "guard"])
        job = self.run_job("modest", 8)
        self.assertTrue(eventually(lambda: "lax cannot limit memory" in self.cluster.dpctl("describe", job).stdout))
        self.cluster.worker(name="strict", options=["--process-tracking", "cgroup"], prefix=self.own.prefix)
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("logs", job).stdout)
        self.assertEqual(self.cluster.describe(job)["ranks"][0]["worker"], "strict")


if __name__ == "__main__":
    unittest.main()
