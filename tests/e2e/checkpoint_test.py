"""Checkpoints with real processes: written, listed, resumed, damaged."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import unittest

from kit.cluster import Cluster, eventually
from kit.idx_data import train_job, write_idx

# Three epochs of ten steps.
SMALL = {"train": 600, "test": 100}


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.worker(slots=3)
        self.data = write_idx(self.cluster.dir / "data", **SMALL)

    def job(self, name, **train):
        weights = str(self.cluster.dir / f"{name}.safetensors")
        return train_job(self.data, name=name, ranks=3, **{
            "epochs": 3, "model": WITH_DROPOUT, "output": {"weights": weights}, **train})

    def saving(self, name, every_steps, **train):
        return self.job(name, checkpoint={"dir": str(self.cluster.dir / "checkpoints"),
                                          "everySteps": every_steps, "keep": 3}, **train)

    def run_job(self, job, *flags):
        """Submits and waits; returns its id."""
        path = self.cluster.dir / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        number = self.cluster.dpctl("submit", path, "-o", "name", *flags, check=0).stdout.strip()
        self.assertEqual(self.cluster.wait(number), 0, self.cluster.dpctl("logs", number).stdout)
        return number

    def weights(self, name):
        return (self.cluster.dir / f"{name}.safetensors").read_bytes()

    def checkpoints(self, job):
        return json.loads(self.cluster.dpctl("checkpoints", job, "-o", "json", check=0).stdout)["items"]

    def test_a_job_leaves_checkpoints_and_its_weights_with_their_hash(self):
        job = self.run_job(self.saving("saves", 7))
        steps = [one["step"] for one in self.checkpoints(job)]
        self.assertEqual(steps[0], 30)  # the end is saved too
        self.assertEqual(steps, sorted(set(steps), reverse=True))
        self.assertGreater(len(steps), 1)
        self.assertLessEqual(len(steps), 3)
        for one in self.checkpoints(job):
            manifest = pathlib.Path(one["path"]) / "manifest.json"
            self.assertEqual(hashlib.sha256(manifest.read_bytes()).hexdigest(), one["sha256"])
        described = self.cluster.describe(job)
        self.assertEqual(described["checkpoint"]["step"], 30)
        self.assertEqual(described["weights"]["sha256"],
                         hashlib.sha256(self.weights("saves")).hexdigest())

    def test_another_job_goes_on_with_the_bits_of_one_that_was_never_broken_off(self):
        self.run_job(self.job("undisturbed"))
        first = self.run_job(self.saving("first", 4, maxSteps=13))
        self.run_job(self.saving("latest", 100), "--resume", f"{first}@latest")
        self.assertEqual(self.weights("latest"), self.weights("undisturbed"))
        earlier = self.checkpoints(first)[1]["step"]
        self.run_job(self.saving("named", 100), "--resume", f"first@{earlier}")
        self.assertEqual(self.weights("named"), self.weights("undisturbed"))

    def test_a_damaged_checkpoint_is_skipped_for_the_one_before(self):
        self.run_job(self.job("undisturbed"))
        first = self.run_job(self.saving("first", 4, maxSteps=12))
        latest, before = self.checkpoints(first)[:2]
        (pathlib.Path(latest["path"]) / "model.safetensors").write_bytes(b"damaged")
        second = self.run_job(self.job("second"), "--resume", f"{first}@latest")
        self.assertEqual(self.weights("second"), self.weights("undisturbed"))
        log = self.cluster.dpctl("logs", second).stdout
        self.assertIn(f"goes on from step {before['step']}", log)
        self.assertIn("went back: no rank can read", log)
        self.assertIn("checkpoint_unreadable", log)

    def test_a_job_saves_before_its_deadline_and_another_one_goes_on_from_there(self):
        job = self.saving("long", 10**9, epochs=10**6, evaluateEvery=0)
        job["env"] = {"TRAINER_STOPS_AT": "0:step:2"}
        # Asked to leave after half of its time, the job has the other half to save and leave.
        first = self.cluster.submit({**job, "maxDuration": "24s", "grace": "1h"})
        self.cluster.follow_until(first, "fault point")
        self.assertTrue(eventually(lambda: "handover" in self.cluster.dpctl("events", first).stdout))
        self.cluster.resume_rank(first, 0)
        self.assertNotEqual(self.cluster.wait(first), 0)
        described = self.cluster.describe(first)
        self.assertEqual((described["state"], described["failureClass"]), ("FAILED", "timeout"))
        step = described["checkpoint"]["step"]
        self.assertEqual(described["failure"]["message"],
                         "it has run for its maxDuration of 24s; its ranks have left; "
                         f"the latest checkpoint on record is of step {step}")
        self.assertGreater(step, 0)
        second = self.run_job(self.saving("rest", 10**9, epochs=10**6, evaluateEvery=0,
                                          maxSteps=step + 5), "--resume", f"{first}@latest")
        self.assertIn(f"goes on from step {step}", self.cluster.dpctl("logs", second).stdout)

    def stopping(self, name, epochs=10):
        """Only the first evaluation is an improvement for earlyStop. The best is by the loss itself."""
        job = self.saving(name, 4, epochs=epochs, model=NORMALIZED,
                          earlyStop={"patience": 2, "minDelta": 100})
        job["train"]["checkpoint"].update(keep=1, best={})
        job["train"]["output"]["best"] = True
        return {**job, "restart": {"maxRestarts": 1}}

    def test_a_training_stops_early_and_leaves_its_best_weights_despite_kills(self):
        undisturbed = self.run_job(self.stopping("undisturbed"))
        job = self.stopping("killed")
        job["env"] = {"TRAINER_STOPS_AT": "1:step:23"}
        number = self.cluster.submit(job)
        self.cluster.follow_until(number, "fault point")
        os.kill(self.cluster.rank_pid(number, 1), signal.SIGKILL)
        self.assertEqual(self.cluster.wait(number), 0, self.cluster.dpctl("logs", number).stdout)
        self.assertEqual(self.cluster.describe(number)["generation"], 2)
        self.assertEqual(self.weights("killed"), self.weights("undisturbed"))
        for job in undisturbed, number:
            described = self.cluster.describe(job)
            self.assertRegex(described["stoppedEarly"],
                             r"^loss of the test set has not improved on .* of step 10 by more than 100 in 2 eval")
            self.assertIn("stopped-early", self.cluster.dpctl("events", job).stdout)
            self.assertEqual(described["checkpoint"]["step"], 30)
            best = described["bestCheckpoint"]
            self.assertIn(best, self.checkpoints(job))
            self.assertRegex(best["best"], "^loss [0-9]")
        [directory] = (self.cluster.dir / "checkpoints").glob(f"job-{number}-*")
        on_disk = {str(path) for path in directory.iterdir()}
        self.assertEqual(on_disk, {one["path"] for one in self.checkpoints(number)})
        self.assertIn("stops early after step 30", self.cluster.dpctl("logs", number).stdout)
        self.assertIn("best checkpoint so far is of step", self.cluster.dpctl("logs", undisturbed).stdout)

    def test_a_directory_that_goes_away_costs_checkpoints_and_not_the_training(self):
        job = self.saving("unlucky", 5, epochs=100)
        job["env"] = {"TRAINER_STOPS_AT": "0:step:2"}
        number = self.cluster.submit(job)
        self.cluster.follow_until(number, "fault point")
        shutil.rmtree(self.cluster.dir / "checkpoints")
        self.cluster.resume_rank(number, 0)
        self.cluster.follow_until(number, "no checkpoint of step 5")
        self.cluster.dpctl("cancel", number, check=0)

    def test_a_directory_that_cannot_be_made_fails_the_job_at_once(self):
        job = self.job("nowhere", checkpoint={"dir": "/proc/nowhere", "everySteps": 5})
        number = self.cluster.submit(job)
        self.assertNotEqual(self.cluster.wait(number), 0)
        lines = "\n".join(self.cluster.describe(number)["failure"]["lastLines"])
        self.assertIn("train.checkpoint.dir: cannot create /proc/nowhere", lines)


WITH_DROPOUT = {"layers": [
    {"conv2d": {"out": 4, "kernel": 3, "padding": 1}}, {"relu": {}}, {"maxPool2d": {"kernel": 2}},
    {"flatten": {}}, {"dropout": {"p": 0.3}}, {"linear": {"out": 10}}]}


NORMALIZED = {"layers": [
    {"conv2d": {"out": 4, "kernel": 3, "padding": 1}}, {"batchNorm": {"sync": True}}, {"relu": {}},
    {"maxPool2d": {"kernel": 2}}, {"flatten": {}}, {"linear": {"out": 10}}]}


if __name__ == "__main__":
    unittest.main()
