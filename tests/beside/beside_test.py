"""Tests tests/beside/run on ports of its own."""

import pathlib
import socket
import subprocess
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

from kit.cluster import BIN, TIMEOUT_S, alive, free_ports  # noqa: E402


class BesideTest(unittest.TestCase):
    def setUp(self):
        first = int(free_ports(2).split("-")[0])
        self.ports = (first, first + 1)

    def run_beside(self, command, *arguments, busy=2):
        """Runs a shell line beside a cluster. {dpctl} stands for dpctl at this cluster."""
        address = f"127.0.0.1:{self.ports[0]}"
        line = command.format(dpctl=f"{BIN}/dpctl --coordinator {address}")
        return subprocess.run(
            [TOP / "tests" / "beside" / "run", "--port", str(self.ports[0]), "--tcpstore-port",
             str(self.ports[1]), "--busy", str(busy), BIN.parent, "--", "sh", "-c", line, *arguments],
            capture_output=True, text=True, timeout=TIMEOUT_S)

    def test_the_command_meets_a_running_cluster_and_a_load(self):
        done = self.run_beside("{dpctl} ps --no-headers; {dpctl} workers --no-headers; "
                               "cat /proc/$PPID/task/*/children | wc -w", busy=3)
        self.assertEqual(done.returncode, 0, done.stderr)
        for found in ("beside.* RUNNING", "beside-0 +READY", "beside-1 +READY"):
            self.assertRegex(done.stdout, found)
        # The coordinator, the workers, the load and the shell itself.
        self.assertEqual(done.stdout.split()[-1], "7", done.stdout)

    def test_it_ends_with_the_commands_exit_code_and_leaves_nothing_behind(self):
        done = self.run_beside("cat /proc/$PPID/task/*/children; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        pids = [int(word) for word in done.stdout.split("\n")[1].split()]
        self.assertGreaterEqual(len(pids), 5)
        self.assertEqual([pid for pid in pids if alive(pid)], [])
        for port in self.ports:
            socket.create_server(("127.0.0.1", port)).close()

    def test_a_command_that_disturbs_the_cluster_is_an_error(self):
        done = self.run_beside("{dpctl} cancel beside; {dpctl} wait beside; true")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("has disturbed the cluster: expected", done.stderr)

    def test_ports_that_are_taken_are_named(self):
        with socket.create_server(("127.0.0.1", self.ports[0])):
            done = self.run_beside("true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"cannot listen on 127.0.0.1:{self.ports[0]}", done.stderr)


if __name__ == "__main__":
    unittest.main()
