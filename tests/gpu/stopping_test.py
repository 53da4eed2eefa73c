"""Tests that a signal which ends tests/gpu/run or tests/gpu/bench leaves nothing behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
# Stands in for dpctl: writes its own process id and its child's, and waits. The child has a session of its own and
# ignores SIGTERM, so that SIGTERM ends only the parent.
DPCTL = f"""#!{sys.executable}
import json, os, signal, subprocess, sys
left = subprocess.Popen([sys.executable, "-c",
    "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"],
    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
left.stdout.readline()
with open(os.environ["STARTED"], "w") as told:
    json.dump([os.getpid(), left.pid], told)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.pause()
"""


class StoppingTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.temporary = self.folder / "tmp"
        for name in ("bin", "tests", "tmp"):
            (self.folder / name).mkdir()
        for name in ("dpctl", "dp-coordinator", "dp-worker"):
            (self.folder / "bin" / name).write_text(DPCTL)
            (self.folder / "bin" / name).chmod(0o755)
        os.mkfifo(self.folder / "started")

    def start(self, command, *arguments, **how):
        """(the process, the ids of the stand-in and its child)."""
        process = subprocess.Popen(
            [HERE / command, "--rehearse", "--build", self.folder, *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, **how,
            env={**os.environ, "TMPDIR": str(self.temporary), "STARTED": str(self.folder / "started")})
        self.addCleanup(process.kill)
        return process, json.loads((self.folder / "started").read_text())

    def expect_gone(self, started):
        for pid in started:
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), f"{pid} is left")
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_each_signal_ends_what_was_started_and_removes_its_folders(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            for command, name in (("run", "product_cnn"), ("bench", "cnn_128_float32")):
                with self.subTest(command=command, number=number):
                    process, started = self.start(command, name)
                    self.assertNotEqual(list(self.temporary.iterdir()), [])
                    process.send_signal(number)
                    told = process.communicate()[1].splitlines()
                    self.assertEqual(process.returncode, 128 + number)
                    self.assertIn(f"{command}: ended by {number.name}", told[-1])
                    self.assertNotIn("Traceback", "".join(told))
                    self.expect_gone(started)

    def test_a_signal_that_was_ignored_before_stays_so(self):
        ignore = ["sh", "-c", 'trap "" HUP; exec "$0" "$@"']
        process = subprocess.Popen([*ignore, HERE / "run", "--rehearse", "--build", self.folder, "product_cnn"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "TMPDIR": str(self.temporary),
                                        "STARTED": str(self.folder / "started")})
        self.addCleanup(process.kill)
        started = json.loads((self.folder / "started").read_text())
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.expect_gone(started)

    def test_where_no_signal_ends_it_nothing_is_left_either(self):
        for name in ("dpctl", "dp-coordinator", "dp-worker"):
            (self.folder / "bin" / name).write_text(DPCTL.replace("\nsignal.pause()\n", "\nsys.exit(3)\n"))
        process, started = self.start("run", "product_cnn")
        self.assertIn("ended with 3", process.communicate()[0])
        self.assertEqual(process.returncode, 1)
        self.expect_gone(started)


if __name__ == "__main__":
    unittest.main()
