"""The queue, through real processes: priorities, holds, dependencies, limits, deadlines, drains."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from kit.cluster import Cluster, eventually
from kit.idx_data import train_job, write_idx

FOREVER = ["tail", "-f", "/dev/null"]


class QueueTest(unittest.TestCase):
    def start(self, **options):
        self.cluster = self.enterContext(Cluster(**options))

    def submit(self, *argv, ranks=1, flags=(), **fields):
        """Submits a command as a job file; returns its id."""
        name = fields.pop("name", "job")
        path = self.cluster.dir / f"{name}.json"
        path.write_text(json.dumps({
            "apiVersion": "dp/v1", "kind": "Job", "name": name, "ranks": ranks, "grace": "1s",
            "command": {"argv": [str(word) for word in argv or ["true"]], "contract": "plain"}, **fields}))
        return self.cluster.dpctl("submit", path, "-o", "name", *flags, check=0).stdout.strip()

    def gate(self):
        """A named pipe. `cat` of it waits until the test writes to it."""
        path = self.cluster.dir / "gate"
        os.mkfifo(path)
        return path

    def state(self, job):
        return self.cluster.describe(job)["state"]

    def running(self, job):
        return eventually(lambda: self.state(job) == "RUNNING")

    def codes(self, job):
        return {reason["code"]: reason for reason in self.cluster.describe(job)["waitsFor"]}

    def kinds(self, job):
        lines = self.cluster.dpctl("events", job, "-o", "json", check=0).stdout.splitlines()
        return [json.loads(line)["kind"] for line in lines]

    def test_jobs_go_by_priority_and_tell_who_is_in_the_way(self):
        self.start()
        self.cluster.worker()
        first = self.submit(*FOREVER)
        self.assertTrue(self.running(first))
        low = self.submit(name="low", priority=-1)
        middle = self.submit(name="middle")
        high = self.submit(name="high", flags=["--priority", 9])
        positions = {job: self.cluster.describe(job)["queuePosition"] for job in (low, middle, high)}
        self.assertEqual(positions, {high: 1, middle: 2, low: 3})
        self.assertEqual(self.codes(high)["resources"]["jobs"], [int(first)])
        self.assertEqual(self.codes(low)["priority"]["jobs"], [int(high)])
        self.cluster.dpctl("priority", "low", "--to", 10, check=0)
        self.assertEqual(self.cluster.describe(low)["queuePosition"], 1)
        self.cluster.dpctl("cancel", first, check=0)
        for job in (low, middle, high):
            self.assertEqual(self.cluster.wait(job), 0)
        ends = [self.cluster.describe(job)["placedAt"] for job in (low, high, middle)]
        self.assertEqual(ends, sorted(ends))

    def test_a_held_job_waits_for_its_release_also_over_a_restart(self):
        self.start()
        self.cluster.worker()
        held = self.submit(flags=["--hold"])
        other = self.submit(name="other")
        self.assertEqual(self.cluster.wait(other), 0)
        self.cluster.restart_coordinator()
        self.assertEqual(list(self.codes(held)), ["held"])
        self.cluster.dpctl("release", held, check=0)
        self.assertEqual(self.cluster.wait(held), 0)
        self.assertEqual(self.kinds(held),
                         ["submitted", "released", "placed", "running", "succeeded"])

    def test_dependencies_are_kept(self):
        self.start()
        self.cluster.worker(slots=4)
        gate = self.gate()
        bad = self.submit("sh", "-c", f"cat {gate}; exit 3", name="bad")
        after_ok = self.submit(name="after-ok", flags=["--after", "bad"])
        after_any = self.submit(name="after-any", flags=["--after", "any:bad"])
        self.assertEqual(self.codes(after_any)["dependency"]["jobs"], [int(bad)])
        gate.write_text("")
        self.assertEqual(self.cluster.wait(bad), 3)
        self.assertEqual(self.cluster.wait(after_any), 0)
        self.assertEqual(list(self.codes(after_ok)), ["unsatisfiable"])
        self.cluster.dpctl("cancel", after_ok, check=0)
        self.assertEqual(self.cluster.wait(after_ok), 103)

    def test_a_user_holds_no_more_than_the_limit(self):
        limits = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "limits"
        limits.write_text("user * slots=2\nqueue small jobs=0  # closed\n")
        self.start(limits=limits)
        self.cluster.worker(slots=4)
        first = self.submit(*FOREVER, ranks=2)
        self.assertTrue(self.running(first))
        second = self.submit(name="second")
        self.assertEqual(self.codes(second)["limit"]["jobs"], [int(first)])
        self.cluster.dpctl("cancel", first, check=0)
        self.assertEqual(self.cluster.wait(second), 0)
        closed = self.submit(name="closed", queue="small")
        self.assertEqual(list(self.codes(closed)), ["unsatisfiable"])

    def test_a_bad_file_of_limits_is_refused(self):
        self.start()
        limits = self.cluster.dir / "limits"
        limits.write_text("user * slots=many\n")
        done = subprocess.run(
            [self.cluster.coordinator.process.args[0], "--data-dir", self.cluster.dir / "other",
             "--listen", "127.0.0.1:0", "--limits", limits], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{limits}:1: 'slots=many' is no limit", done.stderr)

    def test_a_deadline_ends_a_job_and_its_record_goes(self):
        self.start()
        self.cluster.worker()
        job = self.submit(*FOREVER, maxDuration="1s")
        self.assertEqual(self.cluster.wait(job), 100)
        described = self.cluster.describe(job)
        self.assertEqual((described["state"], described["failureClass"]), ("FAILED", "timeout"))
        gone = self.submit("echo", "hello", name="gone", ttlAfterFinish="500ms")
        eventually(lambda: self.cluster.dpctl("describe", gone).returncode == 102)
        self.assertEqual(self.cluster.dpctl("describe", gone).returncode, 102)
        logs = self.cluster.dir / "coordinator" / "logs"
        self.assertTrue(eventually(lambda: not (logs / gone).exists()))

    def test_jobs_that_are_over_are_removed_with_their_logs_and_nothing_else(self):
        self.start()
        self.cluster.worker()
        logs = self.cluster.dir / "coordinator" / "logs"
        kept = self.cluster.dir / "result"
        first = self.submit("sh", "-c", f"echo hello; echo 7 > {kept}", name="first")
        second = self.submit("echo", "hello", name="second")
        for job in (first, second):
            self.assertEqual(self.cluster.wait(job), 0)
            self.assertTrue(eventually(lambda: (logs / job).exists()))
        runs = self.submit(*FOREVER, name="runs")
        self.assertTrue(self.running(runs))
        done = self.cluster.dpctl("rm", "first", runs)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, f"job {first} (first) is removed\n")
        self.assertIn(f"job {runs} is running, not over; cancel it first", done.stderr)
        self.assertEqual(self.cluster.dpctl("describe", first).returncode, 102)
        self.assertTrue(eventually(lambda: not (logs / first).exists()))
        self.assertEqual(kept.read_text(), "7\n")
        self.cluster.restart_coordinator()
        self.assertEqual(self.cluster.dpctl("prune", "--older-than", "1h", check=0).stdout, "")
        self.assertEqual(self.cluster.dpctl("prune", "--older-than", "0s", check=0).stdout,
                         f"job {second} (second) is removed\n")
        self.assertTrue(eventually(lambda: not (logs / second).exists()))
        listed = json.loads(self.cluster.dpctl("ps", "-a", "-o", "json", check=0).stdout)["items"]
        self.assertEqual([job["id"] for job in listed], [int(runs)])

    def test_a_short_job_goes_ahead_of_one_that_waits_for_longer(self):
        self.start()
        self.cluster.worker(slots=3)
        running = self.submit(*FOREVER, ranks=2, maxDuration="1h")
        self.assertTrue(self.running(running))
        head = self.submit(name="head", ranks=3)
        unbounded = self.submit(name="unbounded")
        short = self.submit(name="short", maxDuration="1m")
        self.assertEqual(self.cluster.wait(short), 0)
        self.assertEqual(self.codes(unbounded)["priority"]["jobs"], [int(head)])
        self.cluster.dpctl("cancel", running, check=0)
        for job in (head, unbounded):
            self.assertEqual(self.cluster.wait(job), 0)

    def test_labels_constraints_and_racks_choose_the_workers(self):
        self.start()
        for name, rack in (("n1", "r1"), ("n2", "r2"), ("n3", "r1")):
            self.cluster.worker(name=name, options=["--label", f"rack={rack}", "--label", "fast="])
        job = self.submit(ranks=2)
        self.assertEqual(self.cluster.wait(job), 0)
        self.assertEqual([r["worker"] for r in self.cluster.describe(job)["ranks"]], ["n1", "n3"])
        job = self.submit(constraints=["rack!=r1", "fast"])
        self.assertEqual(self.cluster.wait(job), 0)
        self.assertEqual(self.cluster.describe(job)["ranks"][0]["worker"], "n2")
        labels = json.loads(self.cluster.dpctl("workers", "-o", "json").stdout)["items"][0]["labels"]
        # Coordinator and worker are of one user here.
        self.assertEqual(labels, {"admin-readable": "", "fast": "", "rack": "r1"})
        nowhere = self.submit(constraints=["rack=r9"])
        self.assertIn("unsatisfiable", self.codes(nowhere))

    def test_a_drained_worker_finishes_and_gets_nothing_new(self):
        self.start()
        worker = self.cluster.worker(name="n1")
        gate = self.gate()
        job = self.submit("cat", gate)
        self.assertTrue(self.running(job))
        drained = self.cluster.dpctl("drain", "n1", "--reason", "new disks", "--wait", "--for",
                                     "100ms", check=101)
        self.assertIn("DRAINING", drained.stdout)
        waits = self.submit(name="waits")
        gate.write_text("")
        self.cluster.dpctl("drain", "n1", "--reason", "new disks", "--wait", check=0)
        self.assertEqual(self.cluster.wait(job), 0)
        self.assertEqual(self.codes(waits)["drain"]["workers"], ["n1"])
        # The drain survives restarts of either side.
        self.cluster.restart_coordinator()
        worker.stop()
        self.cluster.worker(name="n1")
        listed = json.loads(self.cluster.dpctl("workers", "-o", "json").stdout)["items"][0]
        self.assertEqual((listed["state"], listed["reason"]), ("DRAINED", "new disks"))
        self.cluster.dpctl("undrain", "n1", check=0)
        self.assertEqual(self.cluster.wait(waits), 0)

    def test_an_elastic_job_starts_with_the_workers_that_are_there(self):
        self.start()
        self.cluster.worker(slots=2, name="n1")
        self.cluster.worker(slots=2, name="n2")
        done = self.cluster.dpctl("run", "--nnodes", "1:4", "--nproc-per-node", 2, "--", "sh", "-c",
                                  "echo $RANK of $WORLD_SIZE", check=0)
        texts = sorted(line.split("] ")[1] for line in done.stdout.splitlines() if "] " in line)
        self.assertEqual(texts, [f"{rank} of 4" for rank in range(4)])

    def test_a_training_leaves_its_slots_to_a_job_of_higher_priority_and_goes_on_afterwards(self):
        self.start()
        self.cluster.worker(name="n1")
        data = write_idx(self.cluster.dir / "data", train=600, test=100)
        training = train_job(data, ranks=1, epochs=10**6, evaluateEvery=0, checkpoint={
            "dir": str(self.cluster.dir / "checkpoints"), "everySteps": 10**9})
        low = self.cluster.submit({**training, "name": "low", "preemptible": True, "grace": "1m"})
        self.assertTrue(self.running(low))
        plan = json.loads(self.cluster.dpctl("submit", "--dry-run", "--explain", "-o", "json",
                                             "--priority", 5, "--", "true", check=0).stdout)
        self.assertIn(("preemption", [int(low)]), [(r["code"], r["jobs"]) for r in plan["waitsFor"]])
        gate = self.gate()
        high = self.submit("cat", gate, name="high", priority=5)
        self.assertTrue(self.running(high))
        left = self.cluster.describe(low)
        self.assertEqual((left["state"], left["generation"]), ("PENDING", 1))
        past = left["pastFailures"][-1]
        self.assertEqual((past["failureClass"], past["countedAs"], past["preemptedBy"]),
                         ("preempt", None, int(high)))
        self.assertEqual(self.codes(low)["preempted"]["jobs"], [int(high)])
        self.assertIn("preempted", self.kinds(low))
        step = left["checkpoint"]["step"]
        self.assertGreater(step, 0)
        gate.write_text("")
        self.assertEqual(self.cluster.wait(high), 0)
        self.cluster.follow_until(low, f"goes on from step {step}")
        self.cluster.dpctl("cancel", low, check=0)

    def test_a_dry_run_explains_and_changes_nothing(self):
        self.start()
        for name in ("n1", "n2"):
            self.cluster.worker(name=name)
        plan = json.loads(self.cluster.dpctl(
            "submit", "--dry-run", "--explain", "-o", "json", "--nnodes", 2, "--", "true",
            check=0).stdout)
        self.assertEqual([(r["rank"], r["worker"], r["interface"]) for r in plan["ranks"]],
                         [(0, "n1", "lo"), (1, "n2", "lo")])
        told = self.cluster.dpctl("submit", "--dry-run", "--explain", "--nnodes", 3, "--", "true",
                                  check=0).stdout
        self.assertIn("would wait, at position 1", told)
        self.assertIn("1 worker with 1 slot missing", told)
        self.assertEqual(json.loads(self.cluster.dpctl("ps", "-a", "-o", "json").stdout),
                         {"items": []})

    def test_events_can_be_followed(self):
        self.start()
        with subprocess.Popen([*self.cluster.dpctl_command(), "events", "-w", "-o", "json"],
                              stdout=subprocess.PIPE, text=True) as events:
            try:
                self.cluster.worker(name="n1")
                job = int(self.submit("true"))
                kinds = []
                for line in events.stdout:
                    event = json.loads(line)
                    kinds.append((event["worker"] or event["job"], event["kind"]))
                    if event["kind"] == "succeeded":
                        break
            finally:
                events.kill()
        self.assertEqual(kinds, [(None, "joined"), ("n1", "registered"), (job, "submitted"), (job, "placed"),
                                 (job, "running"), (job, "succeeded")])


if __name__ == "__main__":
    unittest.main()
