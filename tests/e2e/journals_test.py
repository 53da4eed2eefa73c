"""The coordinator on journals of earlier formats (tests/journals): it starts, answers and
continues, twice.

Jobs of the older journals hold no real specification. There the tests look only at workers and
at their own jobs.
"""

import json
import pathlib
import re
import shutil
import unittest

from kit.cluster import Cluster

JOURNALS = sorted((pathlib.Path(__file__).resolve().parents[1] / "journals").glob("*.sqlite"))
REAL_JOBS = [journal for journal in JOURNALS if "specs" in journal.name]
RUNS = "6"  # a job that runs, with a store
EPOCH = re.compile(r"event=epoch_started epoch=(\d+) ")


class OnJournal(Cluster):
    """A coordinator on a copy of a journal. No worker registers, and none of the journal's
    workers is given up."""

    def __init__(self, journal):
        self.journal = journal
        super().__init__(lease="1h")

    def start_coordinator(self, listen, **how):
        folder = self.dir / "coordinator"
        if not folder.exists():
            folder.mkdir()
            shutil.copy(self.journal, folder / "journal.sqlite")
            mark = self.journal.with_name(self.journal.name + "-mark")  # earlier releases wrote none
            if mark.exists():
                shutil.copy(mark, folder / "journal.sqlite-mark")
        return super().start_coordinator(listen, **how)

    def items(self, *args):
        return json.loads(self.dpctl(*args, "-o", "json", check=0).stdout)["items"]

    def submit_held(self, name):
        return self.submit({"apiVersion": "dp/v1", "kind": "Job", "name": name, "hold": True,
                            "command": {"argv": ["true"]}})

    def stored(self, key):
        return self.dpctl("store", "get", RUNS, key, check=0).stdout.strip()

    def states(self):
        return {worker["name"]: worker["state"] for worker in self.items("workers")}

    def drain_reason(self, name):
        return next(one for one in self.items("workers") if one["name"] == name)["reason"]


class JournalsTest(unittest.TestCase):
    def test_there_is_one_of_each_format(self):
        self.assertGreaterEqual(len(JOURNALS), 4)
        self.assertTrue(REAL_JOBS)

    def test_what_it_holds_is_told_and_stays_over_restarts(self):
        for journal in JOURNALS:
            with self.subTest(journal.name), OnJournal(journal) as cluster:
                epoch = 2  # the epoch of the release that wrote it
                for _ in range(2):
                    self.assertEqual(cluster.states(), {"a": "READY", "b": "LEAVING", "host-c": "LOST"})
                    before, epoch = epoch, int(EPOCH.search(cluster.coordinator.log())[1])
                    self.assertGreater(epoch, before)
                    cluster.restart_coordinator()

    def test_its_jobs_and_their_stores_are_told_and_can_be_changed(self):
        for journal in REAL_JOBS:
            with self.subTest(journal.name), OnJournal(journal) as cluster:
                for life in ("one", "two"):
                    jobs = cluster.items("ps", "--all")
                    self.assertEqual([job["id"] for job in jobs if job["state"] == "RUNNING"], [int(RUNS), 12])
                    for job in jobs:
                        self.assertEqual(cluster.describe(str(job["id"]))["name"], job["name"])
                    self.assertEqual(cluster.stored("count"), "42")
                    cluster.dpctl("store", "set", RUNS, "life", life, check=0)
                    cluster.restart_coordinator()
                    self.assertEqual(cluster.stored("life"), life)

    def test_it_takes_writes_and_has_them_after_each_restart(self):
        for journal in JOURNALS:
            with self.subTest(journal.name), OnJournal(journal) as cluster:
                jobs = [self.write(cluster, life) for life in ("one", "two")]
                self.assertEqual([cluster.describe(job)["name"] for job in jobs], ["one", "two"])
                self.assertEqual(int(jobs[1]), int(jobs[0]) + 1)

    def write(self, cluster, life):
        """Writes two things, which the next run must have; returns the job."""
        job = cluster.submit_held(life)
        cluster.dpctl("drain", "a", "--reason", life, check=0)
        cluster.restart_coordinator()
        self.assertEqual(cluster.drain_reason("a"), life)
        return job


if __name__ == "__main__":
    unittest.main()
