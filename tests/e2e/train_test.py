"""Training through every part: coordinator, worker daemons, trainer processes, dpctl."""

import json
import os
import pathlib
import subprocess
import unittest

from kit.cluster import BIN, Cluster
from kit.idx_data import train_job, write_idx
from kit.rank_lines import lines_of


class TrainTest(unittest.TestCase):
    def train(self, name, slots, **train):
        """Trains on one worker for each number in `slots`, with that many slots; returns the
        weights."""
        with Cluster() as cluster:
            for count in slots:
                cluster.worker(slots=count)
            weights = cluster.dir / "weights.safetensors"
            data = write_idx(cluster.dir / "data")
            job = cluster.submit(train_job(data, name=name, ranks=sum(slots),
                                           output={"weights": str(weights)}, **train))
            self.assertEqual(cluster.wait(job), 0, cluster.dpctl("logs", job).stdout)
            return weights.read_bytes()

    def test_a_job_on_two_workers_trains_and_tells_its_accuracy(self):
        with Cluster() as cluster:
            cluster.worker(slots=1, name="worker-a")
            cluster.worker(slots=1, name="worker-b")
            path = cluster.dir / "job.json"
            data = write_idx(cluster.dir / "data")
            path.write_text(json.dumps(train_job(data, epochs=2)))
            done = cluster.dpctl("run", path, check=0)
            last = done.stdout.strip().splitlines()[-1]
            self.assertTrue(last.startswith("test_accuracy="), last)
            self.assertGreater(float(last.split("=")[1]), 0.9)
            job = cluster.describe("job")
            self.assertEqual({rank["worker"] for rank in job["ranks"]}, {"worker-a", "worker-b"})

    def test_another_placement_and_bucket_plan_give_the_same_bits(self):
        for ranks in ([3], [4]):
            whole = self.train("together", ranks)
            spread = self.train("spread", [1] * (ranks[0] - 2) + [2], bucketCapMb=0.05)
            self.assertEqual(whole, spread)

    def test_a_job_with_every_option_of_an_update_goes_on_as_it_would_have(self):
        options = {
            "optimizer": {"adam": {"learningRate": 0.002, "weightDecay": 1e-4}},
            "schedule": {"warmupSteps": 5, "cosine": {"minFactor": 0.1, "steps": 20}},
            "clipNorm": 1, "accumulate": 2, "stepsPerEpoch": 7,
            "groups": [{"match": "*.bias", "weightDecay": 0, "learningRateFactor": 0.5}],
            "ema": {"decay": 0.9},
        }
        with Cluster() as cluster:
            cluster.worker(slots=2)
            data = write_idx(cluster.dir / "data")
            weights = []
            for name, max_steps, resumed in ("whole", 0, []), ("half", 10, []), ("rest", 0, ["half@latest"]):
                file = cluster.dir / f"{name}.json"
                weights.append(cluster.dir / f"{name}.safetensors")
                job = train_job(data, name=name, ranks=2, epochs=3, maxSteps=max_steps,
                                output={"weights": str(weights[-1])},
                                checkpoint={"dir": str(cluster.dir / "saved"), "everySteps": 10},
                                **options)
                file.write_text(json.dumps(job))
                arguments = [word for text in resumed for word in ("--resume", text)]
                done = cluster.dpctl("run", file, *arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            whole, _, rest = (path.read_bytes() for path in weights)
            self.assertEqual(whole, rest)
            lines = [text for _, text in lines_of(cluster.dpctl("logs", "whole", "--metrics", check=0).stdout)]
            steps = [event for event in map(json.loads, lines) if event["event"] == "step"]
            self.assertEqual(len(steps), 21)
            self.assertAlmostEqual(steps[0]["learning_rate"], 0.002 / 5)
            self.assertGreater(steps[0]["gradient_norm"], 0)

    def test_a_norm_has_a_loss_and_no_accuracy(self):
        with Cluster() as cluster:
            cluster.worker(slots=2)
            data = write_idx(cluster.dir / "data", train=60, test=20)
            job = cluster.submit(train_job(data, loss={"norm": {}}, epochs=2))
            self.assertEqual(cluster.wait(job), 0, cluster.dpctl("logs", job).stdout)
            output = cluster.dpctl("logs", job).stdout
            self.assertRegex(output, r"epoch 2/2 test loss \d")
            self.assertNotIn("accuracy", output)

    def test_the_trace_shows_buckets_reduced_while_backward_goes_on(self):
        with Cluster() as cluster:
            cluster.worker(slots=2)
            trace = cluster.dir / "trace.jsonl"
            job = cluster.submit(train_job(write_idx(cluster.dir / "data"), trace=str(trace),
                                           model={"preset": "cnn"}, bucketCapMb=0.01))
            self.assertEqual(cluster.wait(job), 0)
            steps = {}
            for line in trace.read_text().splitlines():
                event = json.loads(line)
                steps.setdefault(event["step"], []).append(event["event"])
            overlapped = [step for step, events in steps.items()
                          if events.index("bucket_begun") < events.index("backward_ended")]
            # A busy machine may start the reducing thread late in some steps, never in all.
            self.assertTrue(overlapped, steps)

    def test_run_local_brings_its_own_cluster_and_takes_it_down(self):
        with Cluster() as cluster:
            path = cluster.dir / "job.json"
            path.write_text(json.dumps(train_job(write_idx(cluster.dir / "data"))))
            done = cluster.dpctl("run", "--local", path, check=0)
            self.assertIn("test_accuracy=", done.stdout)
            self.assertEqual(processes_with(str(path)), [])

    def test_what_a_killed_run_local_leaves_goes_with_the_next(self):
        with Cluster() as cluster:
            scratch = cluster.dir / "tmp"
            scratch.mkdir()
            run = [BIN / "dpctl", "run", "--local", "--"]
            env = {**os.environ, "TMPDIR": str(scratch)}
            with subprocess.Popen([*run, "sh", "-c", "echo begun; sleep 600"], env=env, text=True,
                                  stdout=subprocess.PIPE) as killed:
                self.assertIn("begun", killed.stdout.readline())
                killed.kill()
            self.assertEqual(len(list(scratch.iterdir())), 1)
            done = subprocess.run([*run, "ls", scratch], env=env, capture_output=True, text=True, timeout=240)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stdout.splitlines()), 1)  # only its own
            self.assertEqual(list(scratch.iterdir()), [])

    def test_run_local_takes_relative_paths_from_where_it_was_called(self):
        with Cluster() as cluster:
            write_idx(cluster.dir / "data")
            job = train_job("data", maxSteps=2, output={"weights": "here.safetensors"})
            (cluster.dir / "job.json").write_text(json.dumps(job))
            cluster.dpctl("run", "--local", "job.json", check=0, cwd=cluster.dir)
            self.assertTrue((cluster.dir / "here.safetensors").exists())
            done = cluster.dpctl("run", "job.json", check=2, cwd=cluster.dir)
            self.assertIn('train.data.dir is "data"; expected an absolute path', done.stderr)


def processes_with(text):
    """Command lines of running processes that contain `text`."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


if __name__ == "__main__":
    unittest.main()
