"""An elastic training with real processes: it shrinks when a host is lost, and grows when one
comes."""

import json
import unittest

from kit.cluster import Cluster, eventually
from kit.idx_data import train_job, write_idx

LEASE = "2s"
BATCH = 60
# Compares losses to this many places, because the two runs sum in different orders.
PLACES = 3
COMPARED = 100


class ElasticTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(lease=LEASE))
        self.data = write_idx(self.cluster.dir / "data", train=600, test=100)
        self.daemons = {}
        for name in ("node1", "node2", "node3"):
            self.add_daemon(name)

    def add_daemon(self, name):
        self.daemons[name] = self.cluster.worker(slots=1, name=name)

    def job(self, name, nodes, **fields):
        job = train_job(self.data, name=name, epochs=10**6, evaluateEvery=0, nodes=nodes, checkpoint={
            "dir": str(self.cluster.dir / name), "everySteps": 20}, **fields)
        del job["ranks"]
        return {**job, "grace": "1m", "detectWithin": "10s", "restart": {"infra": 1000, "hang": 1000}}

    def world(self, job):
        described = self.cluster.describe(job)
        return described["state"], described["generation"], described["worldSize"]

    def metrics(self, job, generation):
        lines = self.cluster.dpctl("logs", job, "--metrics", "--generation", generation, "--rank", "0",
                                   "-o", "json", check=0).stdout.splitlines()
        return [json.loads(json.loads(line)["line"]) for line in lines]

    def history(self, job):
        """The committed history: {step: (loss, samples)}. A step repeated by a later generation
        counts as the later one."""
        return {metric["step"]: (metric["loss"], metric["samples"])
                for generation in range(1, self.cluster.describe(job)["generation"] + 1)
                for metric in self.metrics(job, generation) if metric["event"] == "step"}

    def test_a_training_shrinks_and_grows_and_uses_each_global_batch_once(self):
        job = self.cluster.submit({**self.job("elastic", "1:3"), "growAfter": "1s"})
        self.assertTrue(eventually(lambda: self.world(job) == ("RUNNING", 1, 3)))
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["checkpoint"]))
        self.daemons["node2"].kill()
        self.assertTrue(eventually(lambda: self.world(job) == ("RUNNING", 2, 2)))
        self.cluster.follow_until(job, "goes on from step")
        self.add_daemon("node2")
        self.assertTrue(eventually(lambda: self.world(job) == ("RUNNING", 3, 3)))
        grown = self.cluster.describe(job)["pastFailures"][-1]
        self.assertEqual((grown["failureClass"], grown["countedAs"]), ("preempt", None))
        self.assertIn("1 more worker", grown["message"])
        self.assertTrue(eventually(
            lambda: any(metric["event"] == "step" for metric in self.metrics(job, 3))))
        self.cluster.dpctl("cancel", job, check=0)
        self.cluster.wait(job)
        history = self.history(job)
        self.assertEqual(sorted(history), list(range(1, max(history) + 1)))
        self.assertEqual({samples for _, samples in history.values()}, {BATCH})
        self.assert_like_undisturbed(history)

    def assert_like_undisturbed(self, history):
        """Equal global batches in equal order give equal losses, up to rounding."""
        steps = min(COMPARED, max(history))
        job = self.cluster.submit(self.job("undisturbed", "3", maxSteps=steps))
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("logs", job).stdout)
        for step, (loss, _) in self.history(job).items():
            self.assertAlmostEqual(history[step][0], loss, places=PLACES, msg=f"step {step}")

    def test_a_program_grows_only_where_it_says_so(self):
        program = {"apiVersion": "dp/v1", "kind": "Job", "grace": "1s", "command": {
            "argv": ["tail", "-f", "/dev/null"], "contract": "plain", "nodes": "1:4"}}
        stays = self.cluster.submit({**program, "name": "stays", "constraints": ["worker!=node3"]})
        grows = self.cluster.submit({**program, "name": "grows", "growAfter": "1s",
                                     "constraints": ["worker!=node1", "worker!=node2"]})
        self.assertTrue(eventually(lambda: self.world(grows) == ("RUNNING", 1, 1)))
        self.assertTrue(eventually(lambda: self.world(stays) == ("RUNNING", 1, 2)))
        for name in ("node4", "node5"):
            self.add_daemon(name)
        self.assertTrue(eventually(lambda: self.world(grows)[2] == 3))
        self.assertEqual(self.world(stays), ("RUNNING", 1, 2))
        self.cluster.dpctl("cancel", grows, stays, check=0)


if __name__ == "__main__":
    unittest.main()
