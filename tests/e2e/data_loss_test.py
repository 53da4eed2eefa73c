"""A coordinator that has lost data continues while a worker still runs the lost job."""

import os
import shutil
import unittest

from kit.cluster import Cluster, eventually


def command(name, *argv):
    return {"apiVersion": "dp/v1", "kind": "Job", "name": name, "command": {"argv": list(argv)}}


class DataLossTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.worker(slots=1, name="worker-a")
        self.data = self.cluster.dir / "coordinator"

    def start_again(self):
        self.cluster.coordinator = self.cluster.start_coordinator(self.cluster.address)

    def end_a_job(self):
        job = self.cluster.submit(command("ended", "echo", "of a lost job"))
        self.assertEqual(self.cluster.wait(job), 0)
        return job

    def run_a_job(self):
        """Starts a job that keeps running; returns its number and its process."""
        job = self.cluster.submit(command("runs", "sleep", "1000"))
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["state"] == "RUNNING"))
        return job, self.cluster.describe(job)["ranks"][0]["pid"]

    def assert_new_jobs_run_as(self, lost, pid):
        for number in lost:
            job = self.cluster.submit(command("new", "echo", f"of new job {number}"))
            self.assertEqual(job, number)
            self.assertEqual(self.cluster.wait(job), 0)
            logs = self.cluster.dpctl("logs", job, check=0).stdout
            self.assertEqual([line.split("] ")[-1] for line in logs.splitlines()], [f"of new job {number}"])
        self.assertTrue(eventually(lambda: not os.path.exists(f"/proc/{pid}")))

    def test_a_lost_log_is_refused_and_accepted_and_new_jobs_run(self):
        self.cluster.coordinator.stop()  # moves everything from the log into the file
        self.start_again()
        number, pid = self.run_a_job()
        self.cluster.coordinator.kill()
        (self.data / "journal.sqlite-wal").unlink()
        with self.assertRaisesRegex(RuntimeError, "--accept-data-loss"):
            self.start_again()
        self.cluster.set_coordinator_option("accept_data_loss", "true")
        self.start_again()
        self.assert_new_jobs_run_as([number], pid)

    def test_an_older_copy_goes_on_and_new_jobs_run(self):
        copy = self.cluster.dir / "copy"
        self.cluster.coordinator.stop()
        shutil.copytree(self.data, copy)
        self.start_again()
        ended = self.end_a_job()
        number, pid = self.run_a_job()
        self.cluster.coordinator.kill()
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)
        self.start_again()
        self.assert_new_jobs_run_as([ended, number], pid)


if __name__ == "__main__":
    unittest.main()
