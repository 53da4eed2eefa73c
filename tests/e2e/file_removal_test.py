"""`dpctl rm --with-files` and `prune --with-files`: exactly the files that dp wrote for a job go."""

import json
import shutil
import unittest

from kit.cluster import Cluster, eventually
from kit.idx_data import train_job, write_idx


class FileRemovalCase(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.daemon = self.cluster.worker(name="w", slots=2)
        self.data = write_idx(self.cluster.dir / "data", train=600, test=100)
        self.files = self.cluster.dir / "files"
        self.files.mkdir()

    def saving(self, name, weights=None, **train):
        """A job that saves two checkpoints into the common directory, and its weights."""
        return train_job(self.data, name=name, ranks=2, **{
            "checkpoint": {"dir": str(self.files), "everySteps": 5},
            "output": {"weights": str(self.files / f"{weights or name}.safetensors")}, **train})

    def trained(self, *how, **more):
        number = self.cluster.submit(self.saving(*how, **more))
        self.assertEqual(self.cluster.wait(number), 0, self.cluster.dpctl("logs", number).stdout)
        return number

    def tree(self):
        return {str(path.relative_to(self.files)) for path in self.files.rglob("*")}

    def rm(self, *args, check=0):
        return self.cluster.dpctl("rm", "--with-files", *args, check=check)

    def job_directory(self, number):
        [directory] = self.files.glob(f"job-{number}-*")
        return directory

    def state_of(self, worker):
        items = json.loads(self.cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
        return next(item["state"] for item in items if item["name"] == worker)

    def jobs(self):
        items = json.loads(self.cluster.dpctl("ps", "-a", "-o", "json", check=0).stdout)["items"]
        return [str(item["id"]) for item in items]


class ExactlyTest(FileRemovalCase):
    def test_the_jobs_files_go_and_all_others_stay(self):
        first, second = self.trained("first"), self.trained("second")
        own = self.job_directory(first)
        checkpoints = sorted(path.name for path in own.iterdir())
        self.assertEqual(len(checkpoints), 2)
        (self.files / "notes.txt").write_text("notes")
        (self.files / "first.safetensors.bak").write_text("a copy")
        (own / "best.txt").write_text("of the user")
        before = self.tree()
        dry = self.rm("--dry-run", first, "-o", "json")
        self.assertEqual(self.tree(), before)
        self.assertEqual(self.jobs(), [first, second])

        done = self.rm(first, "-o", "json")
        gone = {f"{own.name}/{name}{file}" for name in checkpoints
                for file in ("", "/model.safetensors", "/optimizer.safetensors", "/manifest.json")}
        self.assertEqual(before - self.tree(), gone | {"first.safetensors"})
        self.assertEqual(self.tree() - before, set())
        self.assertEqual(self.jobs(), [second])
        files = json.loads(done.stdout)["files"]
        self.assertEqual(json.loads(dry.stdout)["files"], files)
        self.assertEqual({(file["path"], file["outcome"]) for file in files},
                         {(str(own / name), "removed") for name in checkpoints} |
                         {(str(self.files / "first.safetensors"), "removed"),
                          (str(own / "best.txt"), "left")})
        self.assertTrue(all(file["worker"] == "w" for file in files))

    def test_equal_weights_of_a_later_job_at_the_same_place_stay(self):
        first, second = self.trained("first", "same"), self.trained("second", "same")
        weights = self.files / "same.safetensors"
        described = [self.cluster.describe(job)["weights"]["sha256"] for job in (first, second)]
        self.assertEqual(described[0], described[1])
        self.assertIn("same.safetensors on worker w stays: it was written at", self.rm(first).stdout)
        self.assertTrue(weights.exists())
        self.rm(second)
        self.assertEqual(self.tree(), set())

    def test_what_a_killed_training_left_behind_goes(self):
        for phase, leftover in (("write:5", "*/.step-5-generation-1.partial/manifest.json"),
                                ("publish:0", "cut.safetensors.job-*.generation-1.tmp"),
                                ("place:0", "cut.safetensors.job-*.generation-1.tmp")):
            with self.subTest(phase=phase):
                job = self.saving("cut")
                job["env"] = {"TRAINER_STOPS_AT": f"0:{phase}"}
                number = self.cluster.submit(job)
                self.cluster.follow_until(number, "fault point")
                self.assertTrue(eventually(lambda: list(self.files.glob(leftover))))
                refused = self.rm(number, check=1)
                self.assertIn("not over; cancel it first", refused.stderr)
                self.cluster.dpctl("cancel", number, check=0)
                self.cluster.wait(number)
                self.assertTrue(list(self.files.glob(leftover)))
                self.rm(number)
                self.assertEqual(self.tree(), set())

    def test_weights_on_record_survive_a_restart_of_the_coordinator(self):
        number = self.trained("first")
        self.cluster.restart_coordinator()
        self.rm(number)
        self.assertEqual(self.tree(), set())

    def test_prune_removes_files_and_its_own_jobs(self):
        self.trained("first"), self.trained("second")
        done = self.cluster.dpctl("prune", "--older-than", "0s", "--with-files", check=0)
        self.assertIn("(first) is removed\n", done.stdout)
        self.assertEqual(self.tree(), set())
        self.assertEqual(self.jobs(), [])

    def test_files_of_a_command_job_stay(self):
        number = self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": "own", "ranks": 1,
            "command": {"argv": ["/bin/sh", "-c", "echo text > own.txt"], "workingDir": str(self.files)}})
        self.assertEqual(self.cluster.wait(number), 0)
        self.assertEqual(self.rm(number).stdout, f"job {number} (own) is removed\n")
        self.assertEqual(self.tree(), {"own.txt"})


class RefusalTest(FileRemovalCase):
    def test_checkpoints_that_another_job_goes_on_from_stay_until_it_has_its_own(self):
        first = self.trained("first")
        path = self.cluster.dir / "second.json"
        path.write_text(json.dumps(self.saving("second", epochs=2)))
        second = self.cluster.dpctl("submit", path, "--resume", f"{first}@latest", "--hold", "-o", "name",
                                    check=0).stdout.strip()
        before = self.tree()
        self.assertIn(f"job {second} goes on from a checkpoint of job {first}",
                      self.rm(first, check=1).stderr)
        self.assertEqual(self.tree(), before)
        self.cluster.dpctl("release", second, check=0)
        self.assertEqual(self.cluster.wait(second), 0)
        self.rm(first)
        self.assertEqual({path.split("/")[0] for path in self.tree()},
                         {self.job_directory(second).name, "second.safetensors"})

    def test_a_worker_that_is_gone_is_named_and_another_one_can_be(self):
        number = self.trained("first")
        self.daemon.stop()
        self.assertTrue(eventually(lambda: self.state_of("w") == "LOST"))
        before = self.tree()
        refused = self.rm(number, check=1)
        self.assertIn("are on worker w ", refused.stderr)
        self.assertIn(str(self.files), refused.stderr)
        self.assertIn("--files-on", refused.stderr)
        self.assertEqual(self.tree(), before)
        self.assertEqual(self.jobs(), [number])
        self.cluster.worker(name="v")
        self.rm("--files-on", "v", number)
        self.assertEqual(self.tree(), set())

    def test_a_record_can_go_without_its_files(self):
        number = self.trained("first")
        before = self.tree()
        self.cluster.dpctl("rm", number, check=0)
        self.assertEqual(self.tree(), before)

    def test_files_that_are_gone_already_are_mentioned(self):
        number = self.trained("first")
        shutil.rmtree(self.job_directory(number))
        done = self.rm(number)
        self.assertEqual(done.stderr.count("is not on worker w\n"), 2, done.stderr)
        self.assertEqual(self.tree(), set())


if __name__ == "__main__":
    unittest.main()
