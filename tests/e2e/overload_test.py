"""A coordinator under a load that would fill its memory: its memory is bounded, and is returned."""

import pathlib
import re
import time
import unittest

from kit.cluster import TIMEOUT_S, Cluster, eventually
from kit.flood_client import MIB, VALUE, FloodClient, getting, setting, text

MEMORY_MAX = 256 * MIB
# A quarter is for requests of TCPStore clients. The rest covers connections, and values on their
# way into the store, which is part of the state.
BOUND = MEMORY_MAX // 4 + 64 * MIB


class MemoryTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(tcpstore_listen="127.0.0.1:0", memory_max=MEMORY_MAX))
        log = self.cluster.coordinator.log()
        port = log.split("event=tcpstore_listening address=127.0.0.1:")[1].split()[0]
        self.address = ("127.0.0.1", int(port))
        self.honest = FloodClient(self.address)
        self.addCleanup(self.honest.socket.close)
        self.talk()
        self.at_start = self.memory("VmRSS")

    def memory(self, name):
        status = pathlib.Path(f"/proc/{self.cluster.coordinator.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024

    def talk(self):
        """A small request of another client always gets through."""
        self.assertEqual(self.honest.ask(setting(b"small", b"word") + getting(b"small"), 12), text(b"word"))

    def send_while(self, clients, wanted):
        """Sends as much as the server takes while wanted() holds."""
        deadline = time.monotonic() + TIMEOUT_S
        while wanted():
            self.assertLess(time.monotonic(), deadline)
            for client in clients:
                client.send_some()
            self.talk()

    def refused(self):
        return re.findall("event=tcpstore_refused .*while other connections waited for the memory", self.cluster.coordinator.log())

    def assert_bounded(self):
        self.assertLess(self.memory("VmHWM") - self.at_start, BOUND)

    def assert_given_back(self):
        self.assertTrue(eventually(lambda: self.memory("VmRSS") < self.at_start + 64 * MIB))

    def test_values_that_are_one_byte_short_do_not_fill_the_memory(self):
        short = setting(b"k", bytes(VALUE))[:-1]
        clients = [FloodClient(self.address, short) for _ in range(300)]
        self.addCleanup(lambda: [client.socket.close() for client in clients])
        # Clients that hold memory for long while others wait are closed; the next ones get the
        # memory.
        self.send_while(clients, lambda: not self.refused())
        self.assert_bounded()
        for client in clients:
            client.socket.close()
        self.talk()
        self.assert_given_back()

    def test_a_flood_of_whole_values_does_not_fill_the_memory(self):
        values = 2 * setting(b"k", bytes(VALUE))
        clients = [FloodClient(self.address, values) for _ in range(100)]
        self.addCleanup(lambda: [client.socket.close() for client in clients])
        self.send_while(clients, lambda: any(client.sent < len(values) for client in clients))
        self.assertEqual(self.refused(), [])
        self.assert_bounded()
        for client in clients:
            client.socket.close()
        self.talk()
        self.assert_given_back()


if __name__ == "__main__":
    unittest.main()
