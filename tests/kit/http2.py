"""HTTP/2 by hand (RFC 9113), for clients that break its habits: one connection over TLS, frame by frame."""

import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
WINDOW = 65535  # of a connection and a stream, before any update
FRAME_MAX = 16384
TIMEOUT_S = 60
SEGMENT = 1400  # bytes of one on Ethernet


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value, bits, first=0):
    """An integer of HPACK (RFC 7541, section 5.1) with `bits` bits in its first byte."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([first | value])
    out = bytearray([first | limit])
    value -= limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)


def field(name, value, first=0):
    """A header as HPACK's literal; `first` is 0x40 for one that the decoder must remember."""
    name, value = name.encode(), value.encode()
    return bytes([first]) + integer(len(name), 7) + name + integer(len(value), 7) + value


def call_fields(method, first=0):
    """The headers of a call of gRPC: method is 'dp.v1.Access/WhoAmI'; `first` as that of a field."""
    return b"".join(field(name, value, first) for name, value in (
        (":method", "POST"), (":scheme", "https"), (":path", f"/{method}"), (":authority", "coordinator"),
        ("content-type", "application/grpc"), ("te", "trailers")))


# The six fields of a call that the decoder was to remember last, in six bytes.
SAME_FIELDS = bytes(0x80 | 62 + age for age in reversed(range(6)))


def message(content=b""):
    """A message of gRPC."""
    return struct.pack(">BI", 0, len(content)) + content


def text(number, content):
    """Field `number` of a protocol buffer, with bytes."""
    return integer(number << 3 | 2, 8) + varint(len(content)) + content


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + bytes([value]))


def tls_context(credential=None):
    """Trusts anybody: attackers do not care who answers. `credential` is a directory with tls.crt and tls.key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if credential:
        context.load_cert_chain(f"{credential}/tls.crt", f"{credential}/tls.key")
    return context


def end_of(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


class Connection:
    """with Connection("127.0.0.1:7070") as connection: connection.calls(10, "dp.v1.Access/WhoAmI")"""

    def __init__(self, address, credential=None, window=None, unread=None, timeout_s=TIMEOUT_S):
        """`window`: bytes that the server may send on each stream; `unread`: those that the kernel keeps unread."""
        raw = socket.socket()
        try:
            raw.settimeout(timeout_s)
            if unread is not None:
                # Short segments keep the server's buffer small as well.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, unread)
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
            raw.connect(end_of(address))
            self.socket = tls_context(credential).wrap_socket(raw)
        except BaseException:
            raw.close()
            raise
        self.received = self.socket.makefile("rb")
        settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.next_stream = 1
        self.remembered = None  # the method whose fields the server has remembered last
        self.window = WINDOW  # what this side may still send on the connection
        self.windows = {}  # and on each stream
        self.initial_window = WINDOW
        self.statuses = {}  # {stream: the last fields that the server sent for it}
        self.reset = set()  # streams that the server has ended early
        self.closed = False
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.received.close()
        self.socket.close()

    def send(self, content):
        """Returns whether the server still takes something."""
        try:
            self.socket.sendall(content)
        except (ConnectionError, ssl.SSLError):
            self.closed = True
        return not self.closed

    def stream(self):
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        return stream

    def fields_of(self, method):
        """The headers of a call, as short as they can be."""
        fields = SAME_FIELDS if self.remembered == method else call_fields(method, first=0x40)
        self.remembered = method
        return fields

    def calls(self, count, method, content=b""):
        """Sends calls at once, whose messages fit into the window; returns their streams."""
        fields, sent = call_fields(method), message(content)
        streams = [self.stream() for _ in range(count)]
        self.send(b"".join(frame(HEADERS, END_HEADERS, stream, fields) + frame(DATA, END_STREAM, stream, sent)
                           for stream in streams))
        return streams

    def call_slowly(self, method, content):
        """The same with a message of any size; waits for windows. Returns whether the server took all of it."""
        stream = self.stream()
        self.send(frame(HEADERS, END_HEADERS, stream, call_fields(method)))
        unsent = memoryview(message(content))
        sent_on_stream = 0
        while len(unsent) and not self.closed and stream not in self.reset and stream not in self.statuses:
            stream_window = self.initial_window + self.windows.get(stream, 0) - sent_on_stream
            size = min(len(unsent), self.window, stream_window, FRAME_MAX)
            if size <= 0:
                self.read()
                continue
            self.window -= size
            sent_on_stream += size
            last = size == len(unsent)
            self.send(frame(DATA, END_STREAM if last else 0, stream, bytes(unsent[:size])))
            unsent = unsent[size:]
        return not len(unsent)

    def read_exactly(self, size):
        content = self.received.read(size)
        if len(content) < size:
            raise ConnectionError("the server has closed")
        return content

    def read(self):
        """Reads one frame, and answers it if it must be answered. Returns its kind; None: there is no other."""
        try:
            head = self.read_exactly(9)
            kind, flags, stream = head[3], head[4], struct.unpack(">I", head[5:])[0] & 0x7FFFFFFF
            content = self.read_exactly(struct.unpack(">I", b"\0" + head[:3])[0])
        except (OSError, ssl.SSLError):
            self.closed = True
            return None
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(content), 6):
                name, value = struct.unpack(">HI", content[at:at + 6])
                if name == INITIAL_WINDOW_SIZE:
                    self.initial_window = value
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, content))
        elif kind == WINDOW_UPDATE:
            grown = struct.unpack(">I", content)[0]
            if stream:
                self.windows[stream] = self.windows.get(stream, 0) + grown
            else:
                self.window += grown
        elif kind == HEADERS:
            self.statuses[stream] = content
        elif kind == RST_STREAM:
            self.reset.add(stream)
        elif kind == DATA and content:
            self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(content))))
        return kind

    def await_answers(self, streams):
        """Reads until the server has ended each of the streams, or the connection."""
        for stream in streams:
            while stream not in self.statuses and stream not in self.reset and self.read() is not None:
                pass
