"""The protocol of shm/messages.h, spoken by hand: for what no client library would ever send."""

import array
import contextlib
import json
import socket
import struct

HELLO, HELLO_REPLY, ERROR, OPEN, OPEN_REPLY, SEGMENT, CLOSE, CLOSE_REPLY = range(1, 9)
STATUS, REPORT, DOCUMENT = range(9, 12)
TRACE, ITEMS = 15, 16
HEAD = struct.Struct("<IHHII")


class Refused(ValueError):
    """What an ERROR said."""

    def __init__(self, body):
        self.status, = struct.unpack_from("<i", body)
        self.text = body[8:].split(bytes(1))[0].decode()
        super().__init__(self.text)


class RawClient:
    """A connection that has said HELLO, if it has a role, and then sends what it likes."""

    def __init__(self, path, role=1):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        if role is not None:
            self.hello(role)
            assert self.receive()[0] == HELLO_REPLY

    def hello(self, role=1, **head):
        self.send(HELLO, 0, struct.pack("<II64s", role, 0, b"hostile"), **head)

    def send(self, kind, request, body=b"", fd=None, major=1, minor=0):
        """The message, with a descriptor if one is given."""
        rights = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self.socket.sendmsg([HEAD.pack(HEAD.size + len(body), major, minor, kind, request) + body], rights)

    def send_items(self, items, hints=(), request=0, count=None, has_hints=None, part_bytes=32768):
        """An order of items, part by part."""
        whole = struct.pack(f"<{len(items)}Q{len(hints)}d", *items, *hints)
        for part, at in enumerate(range(0, max(1, len(whole)), part_bytes)):
            head = struct.pack("<QII", len(items) if count is None else count,
                               bool(hints) if has_hints is None else has_hints, part)
            self.send(ITEMS, request, head + whole[at:at + part_bytes])

    def receive(self):
        """(type, request, body, descriptor or None) of the next message."""
        data, parts, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4))
        if not data:
            raise ConnectionError("the daemon has hung up")
        fds = array.array("i")
        for _, _, content in parts:
            fds.frombytes(content[:4])
        _, _, _, kind, request = HEAD.unpack_from(data)
        return kind, request, data[HEAD.size:], fds[0] if fds else None

    def ask_for_stream(self, request, job, slots):
        text = json.dumps(job).encode()
        self.send(OPEN, request, struct.pack("<IIII", slots, 0, len(text), 0) + text)

    def open(self, job, slots=2, request=1):
        """(id, {segment kind: descriptor}) of a new stream; Refused if there is none."""
        self.ask_for_stream(request, job, slots)
        parts = {}
        while True:
            kind, answered, body, fd = self.receive()
            assert answered == request
            if kind == ERROR:
                raise Refused(body)
            if kind == OPEN_REPLY:
                return struct.unpack_from("<Q", body)[0], parts
            assert kind == SEGMENT
            parts[struct.unpack_from("<QI", body)[1]] = fd

    def close(self):
        # Not close alone: another thread may be waiting for the socket.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
