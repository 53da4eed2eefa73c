"""Secrets of jobs reach ranks, and nothing else shows them: no file, no output, no command line."""

import contextlib
import hashlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import unittest

from kit.cluster import TIMEOUT_S, Cluster, alive, eventually, guards_of
from kit.idx_data import train_job, write_idx
from kit.rank_lines import lines_of
from kit.terminal import CTRL_C, Terminal


def command_lines():
    """Those of all processes of this host, as `ps` shows them."""
    lines = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes())
        except OSError:  # the process has ended
            pass
    return lines


def readers(pid, file):
    """How many of a process's descriptors are for the file, by the beginning of its name."""
    found = []
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(descriptor))
    return sum(name.startswith(file) for name in found)


class SecretsTest(unittest.TestCase):
    def setUp(self):
        # No lease expires during a test, however slow the host is.
        self.cluster = self.enterContext(Cluster(lease="10m"))
        self.value = "hf_" + secrets.token_hex(16)
        self.stars = "*" * len(self.value)
        self.digest = hashlib.sha256(self.value.encode()).hexdigest()
        self.fifo = self.cluster.dir / "go"
        os.mkfifo(self.fifo)

    def dpctl(self, *args, **how):
        return self.cluster.dpctl(*args, env={"TOKEN": self.value}, **how)

    def submit(self, script, *flags):
        """Submits a rank that runs a shell script with the secret TOKEN; returns the job."""
        return self.dpctl("submit", "-o", "name", "--secret", "TOKEN", *flags, "--", "sh", "-c", script,
                          check=0).stdout.strip()

    def start(self, script, *flags):
        """The same; returns once it runs."""
        job = self.submit(script, *flags)
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["state"] == "RUNNING"),
                        self.cluster.dpctl("describe", job).stdout)
        return job

    def go(self):
        """Lets a rank that reads the fifo go on."""
        self.fifo.write_text("go\n")

    def files_with(self, text, spools=True):
        """The files of the cluster that hold `text`: data, logs of the programs, state of the
        daemons. Without `spools` the output that ranks write themselves does not count."""
        found = []
        for file in self.cluster.dir.rglob("*"):
            if not file.is_file() or (not spools and "spool" in file.parts):
                continue
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                continue
            if text.encode() in content:
                found.append(file.name)
        return found

    def assert_hidden(self, spools=True):
        self.assertEqual(self.files_with(self.value, spools), [])
        self.assertFalse([line for line in command_lines() if self.value.encode() in line])
        for args in (["ps", "-a", "-o", "json"], ["events"], ["events", "-o", "json"], ["workers", "-o", "json"],
                     ["audit"]):
            self.assertNotIn(self.value, self.cluster.dpctl(*args, check=0).stdout)

    def assert_job_hidden(self, job):
        for args in (["describe", job], ["describe", job, "-o", "json"], ["logs", job]):
            shown = self.cluster.dpctl(*args, check=0)
            self.assertNotIn(self.value, shown.stdout + shown.stderr)

    def test_a_program_has_its_secrets_and_its_output_has_stars(self):
        self.cluster.worker(slots=2)
        key = self.cluster.dir / "key"
        self.addCleanup(key.unlink, missing_ok=True)
        key.write_text(self.value[::-1] + "\n")
        script = ('printf %s "$TOKEN" | sha256sum; echo "token $TOKEN"; echo "key $KEY" >&2; '
                  'grep "core file size" /proc/self/limits; '
                  'echo "{\\"key\\": \\"$KEY\\"}" >> "$DP_METRICS_FILE"')
        done = self.dpctl("run", "--nproc-per-node", 2, "--secret", "TOKEN", "--secret", f"KEY={key}",
                          "--", "sh", "-c", script, check=0)
        key.unlink()
        for rank in (0, 1):
            lines = [text for which, text in lines_of(done.stdout + done.stderr) if which == rank]
            self.assertIn(f"{self.digest}  -", lines)
            self.assertIn(f"token {self.stars}", lines)
            self.assertIn(f"key {self.stars}", lines)
            limit, = [text for text in lines if "core file size" in text]
            self.assertLessEqual(int(limit.split()[4]), 1, limit)
        described = self.cluster.describe("1")
        self.assertEqual(described["secrets"], ["TOKEN", "KEY"])
        self.assert_hidden()
        self.assertEqual(self.files_with(self.value[::-1]), [])
        self.assert_job_hidden("1")

    def test_while_it_runs_only_the_ranks_own_output_has_it(self):
        self.cluster.worker()
        job = self.start(f'echo "token $TOKEN"; read line < {self.fifo}; exit 3')
        self.cluster.follow_until(job, f"token {self.stars}")
        self.assert_hidden(spools=False)
        # The output, and the values that are hidden in it.
        self.assertEqual(sorted(self.files_with(self.value)), ["0.out", "0.secrets"])
        file, = self.cluster.dir.rglob("0.secrets")
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.go()
        self.assertEqual(self.cluster.wait(job), 3)
        self.assertEqual(self.cluster.describe(job)["failure"]["lastLines"], [f"token {self.stars}"])
        self.assertTrue(eventually(lambda: not self.files_with(self.value)))
        self.assert_hidden()
        self.assert_job_hidden(job)

    def test_a_trainer_has_it_in_its_environment(self):
        self.cluster.worker()
        path = self.cluster.dir / "job.json"
        job = train_job(write_idx(self.cluster.dir / "data"), ranks=1, epochs=100000)
        path.write_text(json.dumps({**job, "secrets": ["TOKEN"]}))
        number = self.dpctl("submit", path, "-o", "name", check=0).stdout.strip()
        self.assertTrue(eventually(lambda: self.cluster.describe(number)["state"] == "RUNNING"))
        rank = self.cluster.rank_pid(number, 0)
        variables = pathlib.Path(f"/proc/{rank}/environ").read_bytes().split(b"\0")
        self.assertIn(f"TOKEN={self.value}".encode(), variables)
        self.cluster.dpctl("cancel", number, check=0)
        self.cluster.wait(number)
        self.assertTrue(eventually(lambda: not self.files_with(self.value)))
        self.assert_hidden()

    def test_a_killed_daemons_successor_hides_what_was_left(self):
        daemon = self.cluster.worker(name="worker-a")
        written = self.cluster.dir / "written"
        job = self.start(f'read line < {self.fifo}; echo "token $TOKEN"; printf "and $TOKEN"; touch {written}; '
                         f'read line < {self.fifo}')
        daemon.freeze()  # it sends nothing of what follows
        guard, = guards_of(daemon)
        self.go()
        self.assertTrue(eventually(written.exists))
        daemon.kill()
        self.assertTrue(eventually(lambda: not alive(guard)))
        self.cluster.worker(name="worker-a")
        sent = lambda: [text for _, text in lines_of(
            self.cluster.dpctl("logs", job, "--generation", 1).stdout)]
        self.assertTrue(eventually(lambda: sent() == [f"token {self.stars}", f"and {self.stars}"]), sent())
        self.cluster.dpctl("cancel", job)
        self.cluster.wait(job)
        self.assertTrue(eventually(lambda: not self.files_with(self.value)))
        self.assert_hidden()
        self.assert_job_hidden(job)

    def test_a_restarted_coordinator_still_has_it(self):
        job = self.submit('printf %s "$TOKEN" | sha256sum')
        self.cluster.restart_coordinator()
        self.assert_hidden()
        self.cluster.worker()
        self.assertEqual(self.cluster.wait(job), 0)
        self.assertIn(self.digest, self.cluster.dpctl("logs", job).stdout)

    def test_a_requeued_job_has_it_in_each_generation(self):
        self.cluster.worker()
        job = self.start(f'printf %s "$TOKEN" | sha256sum; read line < {self.fifo}')
        self.cluster.follow_until(job, self.digest)
        self.cluster.dpctl("requeue", job, check=0)
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["generation"] == 2))
        self.assertTrue(eventually(
            lambda: self.cluster.dpctl("logs", job, "--generation", 2).stdout.count(self.digest) == 1))
        self.go()
        self.assertEqual(self.cluster.wait(job), 0)

    def test_without_its_key_the_job_says_what_is_missing(self):
        job = self.submit("true")
        self.cluster.coordinator.kill()
        (self.cluster.dir / "coordinator" / "identity" / "secret.key").unlink()
        self.cluster.coordinator = self.cluster.start_coordinator(self.cluster.address)
        self.cluster.worker()
        self.assertNotEqual(self.cluster.wait(job), 0)
        self.assertIn("secret TOKEN of job 1 cannot be opened: another key has sealed the value; restore secret.key",
                      self.cluster.describe(job)["failure"]["message"])

    def test_ctrl_c_ends_run_while_a_value_is_typed(self):
        command = [*self.cluster.dpctl_command(), "run", "--secret", "TOKEN=/dev/stdin", "--", "true"]
        with Terminal(command) as terminal:
            reads = lambda: readers(terminal.process.pid, "/dev/pts/") > 3  # and the standard streams
            self.assertTrue(eventually(reads))
            terminal.press(b"not all of ")
            terminal.press(CTRL_C)
            self.assertEqual(terminal.end(), 103, terminal.output)
            self.assertIn("interrupted; no job was submitted", terminal.output)

    def test_a_signal_ends_run_while_a_value_comes_through_a_pipe(self):
        command = [*self.cluster.dpctl_command(), "run", "--secret", "TOKEN=/dev/stdin", "--", "true"]
        for number in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dpctl:
                pipe = os.readlink(f"/proc/{dpctl.pid}/fd/0")
                self.assertTrue(eventually(lambda: readers(dpctl.pid, pipe) > 1))
                dpctl.send_signal(number)
                self.assertEqual(dpctl.wait(TIMEOUT_S), 103)
                self.assertIn("interrupted; no job was submitted", dpctl.stderr.read())

    def test_a_value_comes_through_standard_input(self):
        self.cluster.worker()
        done = subprocess.run([*self.cluster.dpctl_command(), "run", "--secret", "TOKEN=/dev/stdin", "--", "sh", "-c",
                               'printf %s "$TOKEN" | sha256sum'], input=self.value + "\n", capture_output=True, text=True)
        self.assertEqual([text for _, text in lines_of(done.stdout)], [f"{self.digest}  -"], done.stderr)

    def test_a_local_run_has_it_too(self):
        script = 'printf %s "$TOKEN" | sha256sum; echo "token $TOKEN"'
        done = self.dpctl("run", "--local", "--secret", "TOKEN", "--", "sh", "-c", script, check=0)
        self.assertEqual([text for _, text in lines_of(done.stdout)],
                         [f"{self.digest}  -", f"token {self.stars}"])


if __name__ == "__main__":
    unittest.main()
