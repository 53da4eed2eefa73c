"""A client of PyTorch's TCPStore protocol, dialect C, in the standard library, for end-to-end
tests without torch. `python3 wire_client.py VERB ...` is the program of command jobs."""

import os
import pathlib
import resource
import socket
import struct
import sys

WIRE_CLIENT = pathlib.Path(__file__).resolve()


def wire_job(verb, *arguments, ranks, store="relay"):
    """A command job whose ranks run this file."""
    argv = [sys.executable, str(WIRE_CLIENT), verb, *map(str, arguments)]
    return {"apiVersion": "dp/v1", "kind": "Job", "name": f"{verb}-{store}", "ranks": ranks,
            "command": {"argv": argv, "workingDir": "/", "store": store}}


class WireClient:
    """One connection. Like PyTorch's client it never reconnects: a store that drops it fails the
    program."""

    def __init__(self, host, port):
        self._socket = socket.create_connection((host, int(port)), timeout=240)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nonce = struct.pack("<I", os.getpid() & 0xFFFFFFFF)
        self._send(b"\x00" + struct.pack("<I", 0x3C85F7CE) + b"\x0d" + nonce)
        if self._take(4) != nonce:
            raise ConnectionError("the store answers another nonce")

    @staticmethod
    def from_environment():
        return WireClient(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])

    def close(self):
        self._socket.close()

    def set(self, key, value):
        self._send(b"\x01" + _blob(key) + _blob(value))

    def compare_set(self, key, expected, desired):
        self._send(b"\x02" + _blob(key) + _blob(expected) + _blob(desired))
        return self._take_blob()

    def get(self, key):
        self.wait(key)
        self._send(b"\x03" + _blob(key))
        return self._take_blob()

    def add(self, key, amount):
        self._send(b"\x04" + _blob(key) + struct.pack("<q", amount))
        return struct.unpack("<q", self._take(8))[0]

    def check(self, *keys):
        self._send(b"\x05" + struct.pack("<Q", len(keys)) + b"".join(map(_blob, keys)))
        return self._take(1) == b"\x00"

    def wait(self, *keys):
        self._send(b"\x06" + struct.pack("<Q", len(keys)) + b"".join(map(_blob, keys)))
        if self._take(1) != b"\x00":
            raise ConnectionError("a wait ended in another way than by its keys")

    def delete(self, key):
        self._send(b"\x08" + _blob(key))
        return struct.unpack("<q", self._take(8))[0]

    def append(self, key, value):
        self._send(b"\x09" + _blob(key) + _blob(value))

    def queue_push(self, key, value):
        self._send(b"\x0e" + _blob(key) + _blob(value))

    def queue_pop(self, key):
        """Returns the head, or None; does not wait."""
        self._send(b"\x0f" + _blob(key))
        length = struct.unpack("<q", self._take(8))[0]
        return self._take_blob() if length > 0 else None

    def queue_len(self, key):
        self._send(b"\x10" + _blob(key))
        return struct.unpack("<q", self._take(8))[0]

    def barrier(self, key, world_size):
        self._send(b"\x12" + _blob(key) + struct.pack("<q", world_size))
        if self._take(1) != b"\x00":
            raise ConnectionError("a barrier ended in another way than by its count")

    def _send(self, data):
        self._socket.sendall(data)

    def _take(self, size):
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the store has closed the connection")
            data += more
        return data

    def _take_blob(self):
        return self._take(struct.unpack("<Q", self._take(8))[0])


def _blob(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack("<Q", len(data)) + data


def count(client, times):
    """Adds to shared keys by every verb that must take effect exactly once."""
    for i in range(times):
        client.add("sum", 1)
        client.append("text", "x")
        client.queue_push("queue", str(i))
        client.queue_pop("queue")  # never empty: each rank pushes before it pops
        swap(client, f"{os.getpid()}-{i}")


def swap(client, token):
    """Counts up by compare_set. The token distinguishes this change from another rank's change
    to the same number."""
    value = client.compare_set("swapped", "", "0").decode()
    while True:
        desired = f"{int(value.split()[0]) + 1} {token}"
        now = client.compare_set("swapped", value, desired).decode()
        if now == desired:
            return
        value = now


def show_count(client):
    print("sum", client.get("sum").decode(), "text", len(client.get("text")),
          "swapped", client.get("swapped").decode().split()[0], "queued", client.queue_len("queue"), flush=True)


def hold(client):
    print("holding", flush=True)
    print("got", client.get("go").decode(), flush=True)


def share(client, rank, ranks):
    """Rank 0 pushes an element for each of the other ranks, which all wait. It pushes the next
    one when the last was popped."""
    if rank == 0:
        client.wait("go")
        for number in range(1, ranks):
            client.queue_push("jobs", str(number))
            client.wait(f"popped {number}")
        return
    client.wait("jobs")
    element = client.queue_pop("jobs")
    print("popped", element, flush=True)
    assert element is not None, "woken for nothing"
    client.set(f"popped {element.decode()}", "")
    client.get(f"popped {element.decode()}")


def glimpse(client, rank):
    """Rank 1 waits for keys that never exist at the same time."""
    if rank == 1:
        client.wait("first", "second")
        print("saw both", flush=True)
        return
    client.wait("go")
    client.set("first", "")
    client.delete("first")
    client.set("second", "")
    client.get("second")


def use(client, key_bytes):
    """Uses a key of `key_bytes` bytes with every verb that takes a key."""
    key = os.environ["RANK"] + "k" * (key_bytes - 1)
    client.set(key, "v")
    client.append(key, "w")
    assert client.get(key) == b"vw" and client.check(key)
    client.compare_set(key[:-1] + "c", "", "x")
    client.add(key[:-1] + "n", 1)
    client.queue_push(key[:-1] + "q", "x")
    assert client.queue_pop(key[:-1] + "q") is not None
    client.barrier("k" * key_bytes, int(os.environ["WORLD_SIZE"]))
    print(f"a key of {key_bytes} bytes is used", flush=True)


def wide(client, key_bytes):
    """Tests the limit on keys from both sides."""
    for size in (key_bytes, key_bytes + 1):
        try:
            one = WireClient.from_environment()
            one.set("k" * size, "v")
            print(f"a key of {size} bytes is", "taken" if one.get("k" * size) == b"v" else "lost", flush=True)
        except ConnectionError:
            print(f"a key of {size} bytes is refused", flush=True)
    client.add("n", 1)


def flood(client):
    """Sends a request that is too large for a message to the coordinator."""
    client.barrier("begin", int(os.environ["WORLD_SIZE"]))
    try:
        print("answered", WireClient.from_environment().check(*3000 * ["k" * 8192]), flush=True)
    except ConnectionError:
        client.add("refused", 1)
        client.barrier("end", int(os.environ["WORLD_SIZE"]))
        print("refused, and the others count", client.get("refused").decode(), flush=True)


def crowd(client, count):
    """Holds `count` silent connections. The last one must answer after the first has been used."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    print("may have", resource.getrlimit(resource.RLIMIT_NOFILE)[0], "of", hard, flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    others = [WireClient.from_environment() for _ in range(count)]
    client.add("n", 1)
    others[0].add("n", 1)
    print("counted", others[-1].add("n", 1), "over", len(others), flush=True)


def main(verb, times):
    world_size = int(os.environ["WORLD_SIZE"])
    client = WireClient.from_environment()
    if verb == "count":
        client.barrier("begin", world_size)
        print("counting", flush=True)
        count(client, times)
        client.barrier("end", world_size)
        show_count(client)
    elif verb == "hold":
        hold(client)
    elif verb == "share":
        share(client, int(os.environ["RANK"]), world_size)
    elif verb == "late":  # rank 1 is the last at the barrier
        if int(os.environ["RANK"]) == 1:
            hold(client)
        client.barrier("meet", world_size)
    elif verb == "crowd":
        crowd(client, times)
    elif verb == "use":
        use(client, times)
    elif verb == "wide":
        wide(client, times)
    elif verb == "flood":
        flood(client)
    elif verb == "glimpse":
        glimpse(client, int(os.environ["RANK"]))
    elif verb == "outlive":  # the ranks of the first host leave
        client.barrier("begin", world_size)
        if int(os.environ["GROUP_RANK"]) > 0:
            hold(client)
    elif verb == "place":
        client.barrier("begin", world_size)
        role = "client" if os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True" else "host"
        print(f"at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} as {role}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
