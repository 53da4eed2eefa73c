"""Trainings with strategy ps: the coordinator runs the optimizer, and dies meanwhile."""

import functools
import json
import os
import signal
import unittest

from kit.cluster import Cluster, eventually
from kit.idx_data import train_job, write_idx

# Three epochs of ten steps.
SMALL = {"train": 600, "test": 100}
CNN = {"layers": [
    {"conv2d": {"out": 4, "kernel": 3, "padding": 1}}, {"batchNorm": {}}, {"relu": {}},
    {"maxPool2d": {"kernel": 2}}, {"flatten": {}}, {"dropout": {"p": 0.3}}, {"linear": {"out": 10}}]}
ADAMW = {"adamw": {"learningRate": 0.001}}
SGD = {"sgd": {"learningRate": 0.05, "momentum": 0.9}}
# A state every four steps: a kill loses some that the ranks push again.
SYNC = {"ps": {"publishEvery": 4}}


class Bed(Cluster):
    """Room for four ranks."""

    def __init__(self, **options):
        super().__init__(**options)
        self.worker(slots=4)
        self.data = write_idx(self.dir / "data", **SMALL)

    def job(self, name, ranks=3, stops_at=None, **train):
        job = train_job(self.data, name=name, ranks=ranks, **{
            "epochs": 3, "model": CNN, "optimizer": ADAMW, "clipNorm": 1.0,
            "schedule": {"warmupSteps": 5, "cosine": {}},
            "output": {"weights": str(self.dir / f"{name}.safetensors")}, **train})
        job["grace"] = "1s"
        job["restart"] = {"maxRestarts": 10, "infra": 10, "hang": 10, "startup": 10}
        if stops_at:
            job["env"] = {"TRAINER_STOPS_AT": stops_at}
        return job

    def begin(self, job):
        """Returns once a rank has stopped at its fault point."""
        number = self.submit(job)
        self.follow_until(number, "fault point")
        return number

    def told(self, job):
        return self.dpctl("describe", job).stdout + self.dpctl("logs", job).stdout

    def weights(self, name):
        return (self.dir / f"{name}.safetensors").read_bytes()

    def run_job(self, job):
        number = self.submit(job)
        assert self.wait(number) == 0, self.told(number)
        return self.weights(job["name"])

    def losses(self, job):
        """The loss of each step of the first generation."""
        lines = self.dpctl("logs", job, "--metrics", "--generation", 1, "--rank", "0", "-o", "json",
                           check=0).stdout.splitlines()
        metrics = [json.loads(json.loads(line)["line"]) for line in lines]
        return [one["loss"] for one in metrics if one["event"] == "step"]


@functools.cache
def by_ddp(ranks=3, **choices):
    with Bed() as bed:
        return bed.run_job(bed.job("ddp", ranks=ranks, **{
            key: json.loads(value) for key, value in choices.items()}))


class SyncTest(unittest.TestCase):
    def setUp(self):
        self.bed = self.enterContext(Bed())

    def test_the_weights_have_the_bits_of_ddp(self):
        for ranks, choices in ((1, {}), (2, {"optimizer": SGD}), (3, {}), (4, {"optimizer": SGD}),
                               (2, {"model": {"preset": "mlp"}})):
            with self.subTest(ranks=ranks, **choices):
                texts = {key: json.dumps(value) for key, value in choices.items()}
                weights = self.bed.run_job(self.bed.job("ps", ranks=ranks, strategy=SYNC, **choices))
                self.assertEqual(weights, by_ddp(ranks, **texts))

    def test_a_killed_coordinator_goes_on_from_the_published_state(self):
        for number, stops_at in enumerate(("1:push:10", "0:step:15", "2:push:4", "0:push:30")):
            with self.subTest(stops_at=stops_at):
                name = f"killed-{number}"
                job = self.bed.begin(self.bed.job(name, strategy=SYNC, stops_at=stops_at))
                self.bed.restart_coordinator()
                self.bed.resume_rank(job, int(stops_at[0]))
                self.assertEqual(self.bed.wait(job), 0, self.bed.told(job))
                self.assertEqual(self.bed.describe(job)["generation"], 1)
                self.assertEqual(self.bed.weights(name), by_ddp())

    def test_a_killed_rank_costs_no_step(self):
        job = self.bed.begin(self.bed.job("rank", strategy=SYNC, stops_at="1:push:13"))
        os.kill(self.bed.rank_pid(job, 1), signal.SIGKILL)
        self.assertEqual(self.bed.wait(job), 0, self.bed.told(job))
        self.assertEqual(self.bed.describe(job)["generation"], 2)
        self.assertIn("goes on from step 12", self.bed.told(job))
        self.assertEqual(self.bed.weights("rank"), by_ddp())

    def test_a_killed_rank_and_then_a_killed_coordinator_cost_no_step(self):
        """Generation 2 goes on behind step 12, which nobody could push again."""
        job = self.bed.begin(self.bed.job("behind", strategy={"ps": {"publishEvery": 100}},
                                          stops_at="1:push:13:always"))
        os.kill(self.bed.rank_pid(job, 1), signal.SIGKILL)
        self.assertTrue(eventually(lambda: self.bed.describe(job)["generation"] == 2))
        self.bed.follow_until(job, "fault point")
        self.bed.restart_coordinator()
        self.bed.resume_rank(job, 1)
        self.assertEqual(self.bed.wait(job), 0, self.bed.told(job))
        self.assertEqual(self.bed.describe(job)["generation"], 2)
        self.assertEqual(self.bed.weights("behind"), by_ddp())

    def test_rank_and_coordinator_may_die_together(self):
        job = self.bed.begin(self.bed.job("both", strategy=SYNC, stops_at="1:push:13"))
        pid = self.bed.rank_pid(job, 1)
        self.bed.coordinator.kill()
        os.kill(pid, signal.SIGKILL)
        self.bed.coordinator = self.bed.start_coordinator(self.bed.address)
        self.assertEqual(self.bed.wait(job), 0, self.bed.told(job))
        self.assertEqual(self.bed.weights("both"), by_ddp())

    def test_what_was_trained_is_published(self):
        self.bed.run_job(self.bed.job("published", strategy=SYNC))
        folder = self.bed.dir / "coordinator" / "parameters" / "job-1"
        versions = sorted(folder.glob("*.params"), key=lambda path: int(path.stem))
        # Two states of the table, with the optimizer's arrays, and then the final weights.
        self.assertEqual([b"exp_avg_sq" in path.read_bytes() for path in versions],
                         [True, True, False])
        copy = self.bed.dir / "copy.safetensors"
        self.bed.dpctl("weights", "pull", 1, copy, check=0)
        self.assertEqual(copy.read_bytes(), self.bed.weights("published"))
        self.bed.dpctl("rm", 1, check=0)
        self.assertTrue(eventually(lambda: not folder.exists()))


class AsyncTest(unittest.TestCase):
    def test_ranks_that_step_by_themselves_learn(self):
        bed = self.enterContext(Bed())
        for number, strategy in enumerate(({"ps": {"mode": "async"}},
                                           {"ps": {"mode": "bounded", "maxStaleness": 2}})):
            with self.subTest(strategy=strategy):
                job = bed.submit(bed.job(f"async-{number}", strategy=strategy, epochs=6,
                                         optimizer=ADAMW, schedule={"warmupSteps": 1}))
                self.assertEqual(bed.wait(job), 0, bed.told(job))
                losses = bed.losses(job)
                self.assertEqual(len(losses), 60)
                self.assertLess(sum(losses[-10:]), sum(losses[:10]) / 2)

    def test_a_killed_coordinator_does_not_stop_them(self):
        bed = self.enterContext(Bed())
        job = bed.begin(bed.job("killed", strategy={"ps": {"mode": "async", "publishEvery": 4}},
                                stops_at="1:push:10"))
        bed.restart_coordinator()
        bed.resume_rank(job, 1)
        self.assertEqual(bed.wait(job), 0, bed.told(job))
        self.assertEqual(len(bed.losses(job)), 30)


class MemoryTest(unittest.TestCase):
    def test_a_table_that_does_not_fit_names_the_flag(self):
        bed = self.enterContext(Bed(parameter_memory="1MiB"))
        job = bed.job("large", model={"preset": "mlp"}, strategy=SYNC)
        job["restart"] = {"maxRestarts": 0}
        number = bed.submit(job)
        self.assertNotEqual(bed.wait(number), 0)
        lines = "\n".join(bed.describe(number)["failure"]["lastLines"])
        self.assertIn("bytes of memory, but only 1048576 of 1048576 are free", lines)
        self.assertIn("--parameter-memory", lines)


if __name__ == "__main__":
    unittest.main()
