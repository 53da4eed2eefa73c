"""Clients that abuse the coordinator: a job runs on meanwhile, no worker is lost, and the coordinator answers.

The coordinator has its default settings. tests/kit/abuse.py has the attacks, each bounded in connections, calls and
bytes. tests/bench/scale measures heartbeats meanwhile (`abuse`).
"""

import contextlib
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import unittest

from kit import abuse, http2
from kit.cluster import Cluster, eventually
from kit.leftovers import closed_on_error

MIB = 1 << 20
# A third of the default --memory-max, with all that the process had before.
# More than 1 in a build with sanitizers, which takes several times the memory and the time.
INSTRUMENTED = int(os.environ.get("DP_MEMORY_FACTOR", "1"))
MEMORY_CAP = 384 * MIB * INSTRUMENTED
STRANGERS = 8 if INSTRUMENTED == 1 else 4
TURNS = 3
LOG_BYTES = 4 * MIB
# Writes lines, and goes on until it is stopped.
RUNS_ON = f"head -c {LOG_BYTES} /dev/zero | tr '\\0' x | fold -w 1000; echo; exec tail -f /dev/null"
DESCRIPTORS = 256
# The coordinator may close connections. Any other error means that an attack did not take place.
CLOSED = (BrokenPipeError, ConnectionResetError, TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class AbusedCluster(Cluster):
    """A worker, a user named ann, and a job of hers that has written logs and runs on."""

    def __init__(self, prefix=(), **options):
        self.prefix = prefix
        super().__init__(**options)
        self.as_ann = {"XDG_CONFIG_HOME": str(self.dir / "ann")}
        with closed_on_error(self):
            line = self.dpctl("grant", "user", "ann", check=0).stdout.splitlines()[-1]
            self.dpctl("login", "--token", line.split()[-1], env=self.as_ann, check=0)
            self.worker(slots=2, name="w")
            self.job = self.submit_as_ann()
            assert eventually(lambda: self.log_bytes() >= 2 * LOG_BYTES)

    def submit_as_ann(self):
        job = {"apiVersion": "dp/v1", "kind": "Job", "name": "runs-on", "ranks": 2,
               "command": {"argv": ["bash", "-c", RUNS_ON]}}
        (self.dir / "job.json").write_text(json.dumps(job))
        named = self.dpctl("submit", self.dir / "job.json", "-o", "name", env=self.as_ann, check=0).stdout
        return named.split("/")[-1].strip()

    def start_coordinator(self, listen, **how):
        return super().start_coordinator(listen, prefix=self.prefix, **how)

    def log_bytes(self):
        return sum(file.stat().st_size for file in (self.dir / "coordinator" / "logs").rglob("*.stdout"))

    def credential_of_ann(self):
        return self.dir / "ann" / "dp" / "credentials" / self.address

    def events(self):
        lines = self.dpctl("events", "-o", "json", check=0).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.coordinator.pid}/fd"))

    def memory_peak(self):
        status = pathlib.Path(f"/proc/{self.coordinator.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


class AbuseTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(AbusedCluster())
        self.descriptors = self.cluster.descriptors()

    def attack(self, attack):
        """Three turns; returns what the last one returned."""
        for _ in range(TURNS):
            result = None
            with contextlib.suppress(*CLOSED):
                result = attack(self.cluster.address, self.cluster.credential_of_ann())
            self.assert_serves()
        self.assertTrue(eventually(lambda: self.cluster.descriptors() <= self.descriptors))
        return result

    def assert_serves(self):
        self.cluster.dpctl("ps", check=0)
        job = self.cluster.describe(self.cluster.job)
        self.assertEqual((job["state"], job["generation"]), ("RUNNING", 1))
        self.assertNotIn("lost", [event["kind"] for event in self.cluster.events()])
        self.assertLess(self.cluster.memory_peak(), MEMORY_CAP)

    def test_streams_that_are_opened_and_reset(self):
        self.attack(abuse.rapid_reset)

    def test_strangers_who_open_and_reset_streams_together(self):
        # Elsewhere they would take no time of the coordinator's processors.
        command = ["nice", sys.executable, "-m", "kit.abuse", "rapid_reset", self.cluster.address]
        with contextlib.ExitStack() as strangers:
            for _ in range(STRANGERS):
                strangers.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
            self.assertTrue(eventually(self.abandoned_calls_were_seen))
            self.assert_serves()

    def test_streams_that_a_user_opens_and_resets(self):
        self.attack(abuse.rapid_reset_by_user)

    def test_short_streams_that_a_user_opens_and_resets(self):
        self.attack(abuse.short_resets_by_user)
        self.assertTrue(eventually(lambda: self.attack(abuse.short_resets_by_user) or self.abandoned_calls_were_seen()))

    def abandoned_calls_were_seen(self):
        """In the list of refusals, with an address."""
        refused = self.cluster.dpctl("audit", check=0).stdout.splitlines()
        return any("127.0.0.1" in line and "too many calls without their messages" in line for line in refused)

    def test_calls_that_never_end(self):
        self.attack(abuse.hoarded_calls)
        self.assertIn("callers without a credential have begun too many", self.cluster.dpctl("audit", check=0).stdout)

    def test_calls_with_a_megabyte_of_metadata(self):
        self.attack(abuse.large_headers)

    def test_small_calls_that_unpack_into_large_metadata(self):
        self.attack(abuse.header_bomb)

    def test_metadata_without_an_end(self):
        self.attack(abuse.endless_headers)
        self.assertIn("connection_shut_down", self.cluster.coordinator.log())
        shut_down = [line for line in self.cluster.dpctl("audit", check=0).stdout.splitlines() if "(connection)" in line]
        self.assertIn("127.0.0.1 sends too much without proving who calls", shut_down[-1])

    def test_pings_without_a_pause(self):
        self.attack(abuse.pings)

    def test_answers_that_nobody_reads(self):
        self.attack(abuse.slow_readers)

    def test_a_user_who_goes_on_and_reads_no_answer(self):
        self.attack(abuse.unread_answers)
        refused = self.cluster.dpctl("audit", check=0).stdout
        self.assertIn("user ann has too many calls in flight", refused)

    def test_a_user_who_keeps_within_the_limits_and_reads_no_answer(self):
        self.attack(abuse.unread_answers_within_limits)
        self.assertIn("does not read its answers", self.cluster.dpctl("audit", check=0).stdout)

    def test_messages_of_5_mb(self):
        self.attack(abuse.large_messages)

    def test_connections_on_which_nothing_comes(self):
        self.attack(abuse.silent_connections)

    def test_handshakes_that_stop_half_way(self):
        self.attack(abuse.half_handshakes)

    def test_a_user_who_calls_without_a_pause_is_slowed_down(self):
        ends = self.attack(abuse.flood)
        self.assertTrue(any(b"user ann makes more than 1000 calls a second" in end for end in ends.values()))
        self.assertIn("--calls-per-second", self.cluster.dpctl("audit", check=0).stdout)

    def test_tokens_that_are_guessed(self):
        ends = self.attack(abuse.bad_tokens)
        self.assertTrue(any(b"makes more than 100 calls a second" in end for end in ends.values()))


class UnreadAnswersTest(unittest.TestCase):
    def setUp(self):
        # An eighth is for answers that nobody has read yet.
        self.cluster = self.enterContext(AbusedCluster(memory_max=256 * MIB))

    def test_beyond_their_memory_the_oldest_are_given_up(self):
        page = b"\x08\x01"  # of job 1: 1 MiB
        with http2.Connection(self.cluster.address, self.cluster.credential_of_ann(), window=0) as connection:
            connection.calls(64, "dp.v1.Logs/Read", page)
            self.assertTrue(eventually(lambda: connection.read() is None or len(connection.reset) >= 30))
            self.assertGreaterEqual(len(connection.reset), 30)
            self.assertTrue(any(b"its answer was not taken" in end for end in connection.statuses.values()))
        self.assertIn("xxx", self.cluster.dpctl("logs", self.cluster.job, "--tail", "1", check=0).stdout)


class FewDescriptorsTest(unittest.TestCase):
    """The coordinator may open 256 files, of which it keeps 64 for its own."""

    def setUp(self):
        self.cluster = self.enterContext(AbusedCluster(prefix=["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]))

    def connect(self, count):
        """Connections on which a handshake has begun, so that they are not silent."""
        sockets = self.enterContext(contextlib.ExitStack())
        hello = abuse.hello()
        for _ in range(count):
            one = sockets.enter_context(socket.create_connection(http2.end_of(self.cluster.address), http2.TIMEOUT_S))
            with contextlib.suppress(ConnectionError):
                one.sendall(hello)
        return sockets

    def test_silent_connections_make_room(self):
        for _ in range(DESCRIPTORS):
            self.enterContext(socket.create_connection(http2.end_of(self.cluster.address), http2.TIMEOUT_S))
        self.cluster.dpctl("ps", "--timeout", "5s", check=0)

    def test_connections_leave_descriptors_for_the_journal_and_logs(self):
        before = self.cluster.descriptors()
        with self.connect(2 * DESCRIPTORS):
            self.assertTrue(eventually(lambda: "event=connections_refused" in self.cluster.coordinator.log()))
            self.assertLessEqual(self.cluster.descriptors(), DESCRIPTORS - 32)
            # Handshakes that do not go on are given up, and make room.
            self.assertTrue(eventually(lambda: self.cluster.dpctl("ps", "--timeout", "5s").returncode == 0))
        self.assertTrue(eventually(lambda: self.cluster.descriptors() <= before))
        # The coordinator can still store a job.
        self.cluster.submit({"apiVersion": "dp/v1", "kind": "Job", "name": "next", "command": {"argv": ["true"]}})
        self.assertEqual(self.cluster.describe(self.cluster.job)["generation"], 1)
        self.assertNotIn("lost", [event["kind"] for event in self.cluster.events()])


if __name__ == "__main__":
    unittest.main()
