"""Trainings by each strategy (train.strategy), whose ranks are killed at random. Each job must end
with the bits of an undisturbed job of the same strategy.

SEED (the time) selects the blows, and BLOWS (3) is their number for each strategy.
"""

import contextlib
import json
import os
import random
import signal
import time
import unittest

from kit import testbed
from kit.cluster import eventually
from kit.progress import Progress
from kit.weights import tensors_of

SEED = int(os.environ.get("SEED", str(int(time.time()))))
BLOWS = int(os.environ.get("BLOWS", "3"))
EPOCHS = 20

# The testbed's model with a skip from the first device to the second.
PLACED = {"layers": [
    {"conv2d": {"out": 4, "kernel": 3, "padding": 1}}, {"name": "skip", "relu": {}},
    {"conv2d": {"out": 4, "kernel": 3, "padding": 1}, "device": 1},
    {"add": {"layer": "skip"}, "device": 1}, {"maxPool2d": {"kernel": 2}, "device": 1},
    {"flatten": {}, "device": 1}, {"linear": {"out": 10}, "device": 1}]}
ON_ONE_DEVICE = {"layers": [{key: value for key, value in layer.items() if key != "device"}
                            for layer in PLACED["layers"]]}


class StrategiesTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        print(f"SEED={SEED}", flush=True)

    def train(self, strategy, ranks, blows=0, model=None):
        """The hash of the final weights, and rank 0's metrics."""
        with testbed.Testbed(ranks=ranks, spare=0) as bed:
            struck = self.random.randrange(ranks)
            phase = self.random.choice(["step", "all-reduce"])
            step = self.random.randint(1, EPOCHS * testbed.STEPS_PER_EPOCH - 10)
            spec = bed.job(epochs=EPOCHS, stops_at=f"{struck}:{phase}:{step}" if blows else None)
            spec["train"]["strategy"] = strategy
            if model:
                spec["train"]["model"] = model
            job = bed.submit(spec)
            if blows:
                bed.follow_until(job, "fault point")
                self.kill(bed, job, struck)
                self.strike(bed, job, ranks, blows - 1)
            self.assertEqual(bed.wait(job, testbed.LONG_S), 0, bed.dpctl("logs", job).stdout)
            return tensors_of(bed.weights), [metric for _, metric in bed.metrics(job)]

    def strike(self, bed, job, ranks, blows):
        """Kills a rank so many times, some steps after the blow before, or until the job ends."""
        progress, generation = Progress(bed, job), 1
        for _ in range(blows):
            at = progress.wait(lambda now, before=generation: now[0] > before)
            if at is None:
                return
            generation, pause = at[0], self.random.randint(1, 20)
            if progress.wait(lambda now, least=(at[0], at[1] + pause): now >= least) is None:
                return
            self.kill(bed, job, self.random.randrange(ranks))

    def kill(self, bed, job, rank):
        pid = eventually(lambda: bed.describe(job)["ranks"][rank]["pid"])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def survives(self, strategy, ranks, **how):
        weights, metrics = self.train(strategy, ranks, **how)
        struck, _ = self.train(strategy, ranks, blows=BLOWS, **how)
        self.assertTrue(struck == weights, f"SEED={SEED}: {json.dumps(strategy)}")
        return weights, metrics

    def devices(self, metrics):
        return [metric for metric in metrics if metric["event"] == "device"]

    def test_local_sgd(self):
        _, metrics = self.survives({"localSgd": {"syncEvery": 4}}, ranks=2)
        rounds = [metric for metric in metrics if metric["event"] == "step"]
        self.assertEqual([metric["step"] for metric in rounds][:4], [4, 8, 10, 14])
        self.assertAlmostEqual(rounds[0]["ddp_bytes_per_step"], 4 * rounds[0]["reduced_bytes_per_step"])

    def test_data_parallel(self):
        _, metrics = self.survives({"dp": {"devices": 3}}, ranks=1)
        devices = self.devices(metrics)
        self.assertEqual(len(devices), 3 * EPOCHS)
        self.assertEqual([one["samples"] for one in devices[:3]], [200, 200, 200])
        self.assertAlmostEqual(sum(one["busy_share"] for one in devices[:3]), 1)

    def test_model_parallel(self):
        weights, metrics = self.survives({"mp": {}}, ranks=2, model=PLACED)
        devices = self.devices(metrics)
        self.assertEqual(len(devices), 2 * EPOCHS)
        self.assertEqual([one["samples"] for one in devices[:2]], [300, 300])
        plain, _ = self.train({"ddp": {}}, ranks=2, model=ON_ONE_DEVICE)
        self.assertTrue(weights == plain, "other bits than on one device")


if __name__ == "__main__":
    unittest.main()
