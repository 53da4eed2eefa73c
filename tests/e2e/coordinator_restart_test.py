"""The coordinator is killed and restarted while jobs run: nobody notices."""

import json
import os
import re
import subprocess
import unittest

from kit.cluster import TIMEOUT_S, Cluster, eventually

LINES = 6


class RestartTest(unittest.TestCase):
    """A rank prints a line on each request, while commands follow it."""

    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.worker(slots=1, name="worker-a")
        self.fifo = self.cluster.dir / "go"
        os.mkfifo(self.fifo)
        script = (f"exec 3< {self.fifo}; for i in $(seq {LINES}); do read go <&3; echo line $i; done")
        path = self.cluster.dir / "job.json"
        path.write_text(json.dumps({
            "apiVersion": "dp/v1", "kind": "Job", "name": "counts",
            "command": {"argv": ["sh", "-c", script]},
        }))
        self.run_ = self.dpctl("run", path)
        self.job = self.running_job()
        # Kept open: without a writer, the rank would read an end of file as a line.
        self.rank = self.enterContext(open(self.fifo, "w"))

    def running_job(self):
        def look():
            jobs = json.loads(self.cluster.dpctl("ps", "-o", "json", check=0).stdout)["items"]
            return [str(job["id"]) for job in jobs if job["state"] == "RUNNING"]

        return eventually(look)[0]

    def dpctl(self, *args):
        """A dpctl that runs beside the test."""
        process = subprocess.Popen([*self.cluster.dpctl_command(), *map(str, args)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def go(self):
        self.rank.write("go\n")
        self.rank.flush()

    def told(self, process):
        """The lines that the process printed until it exited with success."""
        out, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0, f"{process.args}\n{out}\n{err}")
        return re.findall(r"line \d+", out)

    def pid(self):
        return self.cluster.describe(self.job)["ranks"][0]["pid"]

    def test_run_logs_and_wait_go_on_by_themselves_and_no_line_is_lost_or_told_twice(self):
        before = self.pid()
        logs, wait = self.dpctl("logs", "-f", self.job), self.dpctl("wait", self.job)
        for _ in range(LINES // 2):
            self.go()  # with a coordinator
            self.cluster.coordinator.kill()
            self.go()  # and without
            self.cluster.coordinator = self.cluster.start_coordinator(self.cluster.address)
        expected = [f"line {i + 1}" for i in range(LINES)]
        self.assertEqual(self.told(self.run_), expected)
        self.assertEqual(self.told(logs), expected)
        self.told(wait)
        described = self.cluster.describe(self.job)
        self.assertEqual((described["state"], described["generation"]), ("SUCCEEDED", 1))
        self.assertEqual(self.pid(), before)


class StoppedTest(unittest.TestCase):
    """The coordinator accepts calls and answers none."""

    def test_commands_end_in_time_where_nobody_answers(self):
        cluster = self.enterContext(Cluster())
        cluster.worker(slots=1, name="worker-a")
        path = cluster.dir / "job.json"
        path.write_text(json.dumps({"apiVersion": "dp/v1", "kind": "Job", "name": "sleeps",
                                    "command": {"argv": ["sleep", "600"]}}))
        job = cluster.dpctl("submit", path, "-o", "name", check=0).stdout.strip()
        self.assertTrue(eventually(lambda: cluster.describe(job)["state"] == "RUNNING"))
        cluster.coordinator.freeze()
        for words in (["ps"], ["describe", job], ["wait", job], ["logs", job], ["cancel", job], ["hold", job],
                      ["events"], ["workers"], ["drain", "worker-a", "--reason", "x", "--wait"], ["checkpoints", job],
                      ["store", "ls", job], ["store", "set", job, "k", "v"], ["submit", path]):
            with self.subTest(words=words):
                done = cluster.dpctl(*words, "--timeout", "500ms")
                self.assertEqual(done.returncode, 104, done.stderr)
        cluster.coordinator.thaw()
        self.assertEqual(cluster.dpctl("wait", job, "--timeout", "5s").returncode, 101)



if __name__ == "__main__":
    unittest.main()
