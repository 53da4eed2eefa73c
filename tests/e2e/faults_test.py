"""Parts die, are stopped, or misbehave, in the middle of a job."""

import json
import os
import pathlib
import re
import signal
import stat
import unittest

from kit.cluster import Cluster, alive, eventually
from kit.idx_data import train_job, write_idx

# Longer than any test waits, so no job fails by its own time limit.
DETECT_WITHIN = "1h"


class FaultsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())

    def long_job(self, ranks=2):
        """Submits a job that trains until it is stopped, on two workers; returns its id once
        every rank trains."""
        data = write_idx(self.cluster.dir / "data")
        job = self.cluster.submit({**train_job(data, ranks=ranks, epochs=100000, evaluateEvery=0),
                                   "detectWithin": DETECT_WITHIN, "restart": {"infra": 0}})
        self.cluster.follow_until_each(job, "training starts", ranks)
        self.cluster.follow_until(job, "epoch 1/")
        return job

    def two_workers(self):
        return [self.cluster.worker(slots=1, name=name) for name in ("worker-a", "worker-b")]

    def rank(self, job, number):
        return self.cluster.describe(job)["ranks"][number]

    def assert_failed(self, job, **expected):
        """The job fails; then no rank is left and every slot is free."""
        self.assertNotEqual(self.cluster.wait(job), 0)
        described = self.cluster.describe(job)
        self.assertEqual(described["state"], "FAILED")
        for field, value in expected.items():
            self.assertEqual(described["failure"][field], value, described["failure"])
        for rank in described["ranks"]:
            self.assertFalse(alive(rank["pid"]), rank)
        return described

    def free_slots(self):
        table = self.cluster.dpctl("workers", "-o", "json", check=0).stdout
        return {worker["name"]: worker["freeSlots"]
                for worker in json.loads(table)["items"] if worker["state"] == "READY"}

    def test_a_killed_rank_is_named_with_its_signal(self):
        self.two_workers()
        job = self.long_job()
        victim = self.rank(job, 1)
        os.kill(victim["pid"], signal.SIGKILL)
        described = self.assert_failed(job, rank=1, worker=victim["worker"])
        self.assertEqual(described["signal"], signal.SIGKILL)
        self.assertEqual(described["failureClass"], "user")
        self.assertEqual(self.free_slots(), {"worker-a": 1, "worker-b": 1})

    def test_a_rank_that_fails_is_named_with_its_exit_code_and_last_lines(self):
        self.two_workers()
        job = self.cluster.submit({**train_job(self.cluster.dir / "missing"), "detectWithin": DETECT_WITHIN})
        described = self.assert_failed(job)
        self.assertEqual(described["exitCode"], 1)
        self.assertTrue(any("missing" in line for line in described["failure"]["lastLines"]),
                        described["failure"])

    def test_a_training_that_never_comes_to_its_first_step_is_not_tried_for_ever(self):
        self.cluster.worker(slots=1, name="worker-a")
        # The job's one rank joins, so the job runs; then the rank finds no data.
        job = self.cluster.submit({**train_job(self.cluster.dir / "missing", ranks=1),
                                   "restart": {"maxRestarts": 9, "startup": 1}})
        self.assertNotEqual(self.cluster.wait(job), 0)
        described = self.cluster.describe(job)
        self.assertEqual(described["generation"], 2)
        self.assertIn("2 generations in a row have ended before the first step was done",
                      described["notRestartedBecause"])

    def test_a_killed_daemon_takes_its_ranks_down_and_fails_the_job(self):
        workers = self.two_workers()
        job = self.long_job()
        victim = next(rank for rank in self.cluster.describe(job)["ranks"]
                      if rank["worker"] == "worker-b")
        workers[1].kill()
        described = self.assert_failed(job, rank=victim["rank"], worker="worker-b")
        self.assertEqual(described["failureClass"], "infra")
        self.assertEqual(self.free_slots(), {"worker-a": 1})

    def test_a_killed_coordinator_comes_back_and_the_ranks_train_on(self):
        self.two_workers()
        data = write_idx(self.cluster.dir / "data")
        job = self.cluster.submit(train_job(data, epochs=35, evaluateEvery=0))
        self.cluster.follow_until(job, "epoch 1/")
        before = [rank["pid"] for rank in self.cluster.describe(job)["ranks"]]
        self.cluster.restart_coordinator()
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("describe", job).stdout)
        described = self.cluster.describe(job)
        self.assertEqual([rank["pid"] for rank in described["ranks"]], before)
        self.assertEqual(described["generation"], 1)
        self.assertIn("epoch 35/35", self.cluster.dpctl("logs", job).stdout)

    def test_cancel_stops_every_rank_and_frees_the_slots(self):
        self.two_workers()
        job = self.long_job()
        pids = [rank["pid"] for rank in self.cluster.describe(job)["ranks"]]
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertFalse(any(alive(pid) for pid in pids))
        self.assertEqual(self.free_slots(), {"worker-a": 1, "worker-b": 1})

    def test_a_stopped_rank_is_killed_on_cancel(self):
        self.two_workers()
        data = write_idx(self.cluster.dir / "data")
        job = self.cluster.submit({**train_job(data, epochs=100000), "grace": "1s"})
        self.cluster.follow_until(job, "epoch 1/")
        pid = self.rank(job, 0)["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertFalse(alive(pid))

    def test_a_stopped_rank_is_the_failure_not_those_that_waited_for_it(self):
        self.cluster.worker(slots=3, name="worker-a")
        data = write_idx(self.cluster.dir / "data")
        job = self.cluster.submit({**train_job(data, ranks=3, epochs=100000), "detectWithin": "2s",
                                   "restart": {"hang": 0}})
        self.cluster.follow_until(job, "epoch 1/")
        os.kill(self.rank(job, 1)["pid"], signal.SIGSTOP)
        self.assertEqual(self.cluster.wait(job), 100)
        described = self.cluster.describe(job)
        self.assertEqual(described["failureClass"], "hang")
        self.assertEqual(described["failure"]["rank"], 1, described["failure"])
        self.assertIn("did not arrive within 2s", described["failure"]["message"])

    def test_more_ranks_than_slots_wait_and_say_what_is_missing(self):
        self.cluster.worker(slots=1, name="worker-a")
        data = write_idx(self.cluster.dir / "data")
        job = self.cluster.submit(train_job(data, ranks=4))
        described = self.cluster.describe(job)
        self.assertEqual(described["state"], "PENDING")
        self.assertIn("4", described["pendingReasons"][0])
        self.cluster.worker(slots=3, name="worker-b")
        self.assertEqual(self.cluster.wait(job), 0)

    def test_a_daemon_waits_for_a_coordinator_that_is_away(self):
        self.cluster.coordinator.kill()
        daemon = self.cluster.worker_in_background(slots=1, name="late")
        self.assertTrue(eventually(lambda: "coordinator_unreachable" in daemon.log()))
        self.cluster.coordinator = self.cluster.start_coordinator(self.cluster.address)
        self.assertTrue(eventually(lambda: self.free_slots() == {"late": 1}))


class LogsTest(unittest.TestCase):
    def trainer(self, cluster, script):
        """A stand-in for dp-trainer."""
        path = cluster.dir / "trainer"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return ["--trainer", path]

    def test_a_hundred_megabytes_without_a_newline_arrive(self):
        with Cluster() as cluster:
            size = 100_000_000
            options = self.trainer(cluster, f"head -c {size} /dev/zero | tr '\\0' x")
            worker = cluster.worker(options=options)
            job = cluster.submit(train_job(cluster.dir, ranks=1))
            self.assertEqual(cluster.wait(job), 0)
            output = cluster.dpctl("logs", job, check=0).stdout
            self.assertGreaterEqual(output.count("x"), size)
            self.assertLess(peak_memory_mb(worker.pid), 200)

    def test_the_program_that_is_gone_is_named(self):
        with Cluster() as cluster:
            options = self.trainer(cluster, "exit 0")
            cluster.worker(options=options)
            options[1].rename(cluster.dir / "elsewhere")
            job = cluster.submit(train_job(cluster.dir, ranks=1))
            self.assertEqual(cluster.wait(job), 100)
            self.assertIn(str(options[1]), cluster.describe(job)["failure"]["message"])


def peak_memory_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1000


if __name__ == "__main__":
    unittest.main()
