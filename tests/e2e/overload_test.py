"""A coordinator under load that would fill its memory: what it holds is bounded, and given back."""

import pathlib
import re
import socket
import struct
import time
import unittest

from cluster import TIMEOUT_S, Cluster, eventually

MIB = 1 << 20
VALUE = 8 * MIB  # the largest that a store takes
SET, GET = 1, 3  # codes of operations
HANDSHAKE = b"\0" + struct.pack("<I", 0x3C85F7CE)
MEMORY_MAX = 256 * MIB
# A quarter of it is for requests of TCPStore clients; beside them are connections, and values on their way into
# the store, which is the state.
BOUND = MEMORY_MAX // 4 + 64 * MIB


def text(string):
    return struct.pack("<Q", len(string)) + string


def setting(key, value):
    return bytes([SET]) + text(key) + text(value)


class Client:
    """A client of the TCPStore protocol that sends as much as the server takes."""

    def __init__(self, address, unsent=b""):
        self.socket = socket.create_connection(address)
        # Bytes that the server does not read stay here, not in the kernel.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 << 10)
        self.socket.sendall(HANDSHAKE)
        self.unsent = memoryview(unsent)
        self.sent = 0

    def send_some(self):
        """Until the server takes no more for now, or has closed."""
        self.socket.setblocking(False)
        try:
            while self.sent < len(self.unsent):
                self.sent += self.socket.send(self.unsent[self.sent:])
        except (BlockingIOError, ConnectionError):
            pass

    def ask(self, request, size):
        """The next bytes that come after the request."""
        self.socket.setblocking(True)
        self.socket.sendall(request)
        answer = b""
        while len(answer) < size:
            piece = self.socket.recv(size - len(answer))
            if not piece:
                raise ConnectionError("the server has closed")
            answer += piece
        return answer


class MemoryTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(tcpstore_listen="127.0.0.1:0", memory_max=MEMORY_MAX))
        log = self.cluster.coordinator.log()
        port = log.split("event=tcpstore_listening address=127.0.0.1:")[1].split()[0]
        self.address = ("127.0.0.1", int(port))
        self.honest = Client(self.address)
        self.addCleanup(self.honest.socket.close)
        self.talk()
        self.at_start = self.memory("VmRSS")

    def memory(self, name):
        status = pathlib.Path(f"/proc/{self.cluster.coordinator.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024

    def talk(self):
        """Somebody else's few words pass whatever the others do."""
        self.assertEqual(self.honest.ask(setting(b"small", b"word") + bytes([GET]) + text(b"small"), 12), text(b"word"))

    def send_while(self, clients, wanted):
        """Sends what the server takes while that is `wanted`."""
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
        clients = [Client(self.address, short) for _ in range(300)]
        self.addCleanup(lambda: [client.socket.close() for client in clients])
        # Those that hold memory for long, while others wait, are closed, and the next ones get it.
        self.send_while(clients, lambda: not self.refused())
        self.assert_bounded()
        for client in clients:
            client.socket.close()
        self.talk()
        self.assert_given_back()

    def test_a_flood_of_whole_values_does_not_fill_the_memory(self):
        values = 2 * setting(b"k", bytes(VALUE))
        clients = [Client(self.address, values) for _ in range(100)]
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
