"""Limits of the stores of command jobs, tested by a wire-protocol client. Limits other than the
defaults reach every server of a store. A request too large for a message harms no other client."""

import re
import subprocess
import unittest

from kit.cluster import BIN, Cluster, free_ports
from kit.rank_lines import lines_of
from kit.wire_client import wire_job
from kit.wire_client import WireClient

KEY_BYTES_MAX = 32 << 10


class StoreLimitsTest(unittest.TestCase):
    def start(self, **options):
        self.cluster = self.enterContext(
            Cluster(store_ports=free_ports(20), tcpstore_listen="127.0.0.1:0", **options))
        self.cluster.worker(slots=2)

    def texts(self, job):
        code = self.cluster.wait(job)
        texts = [text for _, text in lines_of(self.cluster.dpctl("logs", job).stdout)]
        self.assertEqual(code, 0, self.cluster.dpctl("describe", job).stdout + "\n".join(texts))
        return texts

    def assert_keys_end_at(self, size, store):
        self.assertEqual(self.texts(self.cluster.submit(wire_job("wide", size, ranks=1, store=store))),
                         [f"a key of {size} bytes is taken", f"a key of {size + 1} bytes is refused"])

    def test_longer_keys_are_taken_by_whoever_serves_the_store(self):
        self.start(store_key_bytes_max=KEY_BYTES_MAX)
        for store in ("relay", "rank0", "direct"):
            with self.subTest(store=store):
                self.assertEqual(
                    self.texts(self.cluster.submit({**wire_job("use", 20 << 10, ranks=2, store=store),
                                                    "name": f"use-{store}"})),
                    2 * ["a key of 20480 bytes is used"])
                self.assert_keys_end_at(KEY_BYTES_MAX, store)

    def test_shorter_keys_than_the_protocols_are_refused_by_the_store(self):
        self.start(store_key_bytes_max=100)
        for store in ("relay", "direct"):
            with self.subTest(store=store):
                self.assert_keys_end_at(100, store)

    def test_the_store_of_torchruns_agents_takes_longer_keys_too(self):
        self.start(store_key_bytes_max=KEY_BYTES_MAX)
        address = re.search(r"event=tcpstore_listening address=(\S+)", self.cluster.coordinator.log())[1]
        client = WireClient(*address.split(":"))
        client.set("k" * KEY_BYTES_MAX, "v")
        self.assertEqual(client.get("k" * KEY_BYTES_MAX), b"v")
        client.set("k" * (KEY_BYTES_MAX + 1), "v")
        self.assertRaises(ConnectionError, client.get, "k")

    def test_a_coordinator_that_is_started_with_another_limit_tells_it_to_the_next_job(self):
        self.start()
        self.assert_keys_end_at(8 << 10, "relay")
        self.cluster.set_coordinator_option("store_key_bytes_max", KEY_BYTES_MAX)
        self.cluster.restart_coordinator()
        self.assert_keys_end_at(KEY_BYTES_MAX, "relay")

    def test_a_request_that_fits_into_no_message_closes_its_own_connection_only(self):
        self.start()
        job = self.cluster.submit(wire_job("flood", ranks=2))
        self.assertEqual(self.texts(job), 2 * ["refused, and the others count 2"])

    def test_keys_that_no_message_could_carry_are_no_option(self):
        done = subprocess.run([BIN / "dp-coordinator", "--data-dir", "/nonexistent",
                               "--store-key-bytes-max=1048577"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--store-key-bytes-max", done.stderr)


if __name__ == "__main__":
    unittest.main()
