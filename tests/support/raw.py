"""The protocol of shm/messages.h, spoken by hand: for what no client library would ever send."""

import array
import contextlib
import json
import socket
import struct

HELLO, HELLO_REPLY, ERROR, OPEN, OPEN_REPLY, SEGMENT, CLOSE, CLOSE_REPLY = range(1, 9)
STATUS, REPORT, DOCUMENT = range(9, 12)
ITEMS = 16
HEAD = struct.Struct("<IHHII")


class RawClient:
    """A connection that has said HELLO and then sends what it likes."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(30)
        self._socket.connect(str(path))
        self.send(HELLO, 0, struct.pack("<II64s", 1, 0, b"hostile"))
        assert self.receive()[0] == HELLO_REPLY

    def send(self, kind, request, body=b"", fd=None):
        """The message, with a descriptor if one is given."""
        rights = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self._socket.sendmsg([HEAD.pack(HEAD.size + len(body), 1, 0, kind, request) + body], rights)

    def receive(self):
        """(type, request, body, descriptor or None) of the next message."""
        data, parts, _, _ = self._socket.recvmsg(65536, socket.CMSG_SPACE(4))
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

    def close(self):
        # Not close alone: another thread may be waiting for the socket.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
