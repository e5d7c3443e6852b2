"""The daemon's half of a guest's conversation, for what Python adds to the C library's tests (tests/client/guest_*).

A real socket, a real channel and a real sample segment, whose slots hold two fields of 12 and 100 bytes, or one
opaque field of up to 300, or of up to 256 in batches of four rows that guests collate. The offsets are those of
shm/layout.h and shm/messages.h. One thread attaches and takes jobs, the test's; the greeting runs on another, since
attaching waits for it.
"""

import fcntl
import mmap
import os
import socket
import struct
import threading

MAJOR, MINOR = 1, 3
HELLO, HELLO_REPLY, SEGMENT, PIPELINE, MAPPED, FORGET, GUEST = 1, 2, 6, 12, 13, 14, 17
WAKE, CHANNEL, SAMPLES, ROWS = 3, 5, 7, 8
ADD_SEALS, SHRINK_AND_GROW = 1033, 6
JOB_TAIL, MESSAGES, CALLS, COMPLETION_TAIL, COMPLETION_HEAD, JOBS, COMPLETIONS = 0, 4, 8, 128, 192, 256, 768
CHANNEL_BYTES, SLOT, STREAM, CREW = 768 + 8 * 256, 512, 42, 0xFEDCBA9876543210
TWO_FIELDS, OPAQUE, COLLATED = ((64, 12), (128, 100)), ((64, 300),), ((64, 256),)
# Of COLLATED: two batch slots of a page, from the second page on; in each of them four rows, what is valid, how long
# each row is, and up to 100 collated bytes.
PAGE, VALID, LENGTHS, COLLATED_AT, COLLATED_BYTES, COLLATE = 4096, 1024, 1280, 1536, 100, 2


def _segment(name, size):
    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(file, ADD_SEALS, SHRINK_AND_GROW)
    return file, mmap.mmap(file, size)


class GuestPeer:
    def __init__(self, path, fields=TWO_FIELDS):
        self.path = str(path)
        self._fields = fields
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen()
        self._announced = threading.Event()
        self._channel_file, self.channel = _segment("channel", CHANNEL_BYTES)
        self._samples_file, self.samples = _segment("peer_samples", 16 * SLOT)
        self._rows_file, self.rows = _segment("peer_rows", 3 * PAGE)
        self._bell = os.eventfd(0)
        self._given = self._taken = self._messages = 0
        self.crew = self.workers = None
        self._greeter = threading.Thread(target=self._greet)
        self._greeter.start()

    def _send(self, kind, body, *files):
        head = struct.pack("<IHHII", 16 + len(body), MAJOR, MINOR, kind, 0)
        socket.send_fds(self._socket, [head + body], files)

    def _greet(self):
        self._socket, _ = self._listener.accept()
        request = struct.unpack_from("<I", self._socket.recv(65536), 12)[0]
        body = struct.pack("<QiI32s", 1, os.getpid(), 0, b"test")
        self._socket.send(struct.pack("<IHHII", 16 + len(body), MAJOR, MINOR, HELLO_REPLY, request) + body)
        self.crew, self.workers = struct.unpack_from("<QI", self._socket.recv(65536), 16)
        self._send(SEGMENT, struct.pack("<QIIQ", 0, CHANNEL, 0, CHANNEL_BYTES), self._channel_file)
        self._send(SEGMENT, struct.pack("<QIIQ", 0, WAKE, 0, 0), self._bell)
        self._announce()

    def _announce(self):
        places = [number for field in self._fields for number in field]
        collated = self._fields is COLLATED
        layout = struct.pack("<IIQ32Q", len(self._fields), collated or self._fields is OPAQUE, SLOT,
                             *places, *[0] * (32 - len(places)))
        layout += struct.pack("<QQ4I16Q4Q", PAGE, PAGE, 2, 4, 0, 0, *[0] * 16, VALID, LENGTHS, COLLATED_AT,
                              COLLATED_BYTES) if collated else bytes(192)
        self._send(PIPELINE, struct.pack("<QII", STREAM, len(layout), 0) + layout)
        if collated:
            self._send(SEGMENT, struct.pack("<QIIQ", STREAM, ROWS, 0, 3 * PAGE), self._rows_file)
        self._send(SEGMENT, struct.pack("<QIIQ", STREAM, SAMPLES, 0, 16 * SLOT), self._samples_file)
        self._told()
        self._announced.set()

    def _told(self):
        self._messages += 1
        self._store(MESSAGES, self._messages)

    def _store(self, offset, value):
        struct.pack_into("<I", self.channel, offset, value)

    def give(self, index, slot=0, seed=0, epoch=0):
        """A job, as soon as the guest has been told of its stream. No futex is rung: a guest that waits in slices
        looks by itself."""
        self._give(struct.pack("<8Q", 1000 + index, STREAM, 0, 0, slot * SLOT, seed, epoch, index))

    def give_batch(self, number, rows, seed=0, epoch=0):
        """A batch to collate, in slot 1, of such rows; None is one that is not valid."""
        for place, row in enumerate(rows):
            start = 2 * PAGE + place * 256
            self.rows[start:start + len(row or b"")] = row or b""
            struct.pack_into("<Q", self.rows, 2 * PAGE + LENGTHS + 8 * place, len(row or b""))
            self.rows[2 * PAGE + VALID + place] = row is not None
        self._give(struct.pack("<QQ4I4Q", 1000 + number, STREAM, COLLATE, 1, len(rows), 0, 2**64 - 1, seed, epoch,
                               number))

    def _give(self, job):
        assert self._announced.wait(10)
        start = JOBS + self._given % 8 * 64
        self.channel[start:start + 64] = job
        self._given += 1
        self._store(JOB_TAIL, self._given)

    def completions(self):
        """[(index, error kind, begin of its text)] of the answers since the last call."""
        tail = struct.unpack_from("<I", self.channel, COMPLETION_TAIL)[0]
        found = []
        while self._taken < tail:
            start = COMPLETIONS + self._taken % 8 * 256
            tag, kind = struct.unpack_from("<QI", self.channel, start)
            text = self.channel[start + 88:start + 248]
            found.append((tag - 1000, kind, text[:text.index(b"\0")].decode()))
            self._taken += 1
        self._store(COMPLETION_HEAD, self._taken)
        return found

    def slot(self, number=0):
        """(payload bytes, error bytes, what follows the header)."""
        start = number * SLOT
        payload, error = struct.unpack_from("<QQ", self.samples, start)
        return payload, error, self.samples[start + 64:start + SLOT]

    def collated(self):
        """(bytes written, what lies there) by the newest answer."""
        start = COMPLETIONS + (self._taken - 1) % 8 * 256
        written = struct.unpack_from("<Q", self.channel, start + 248)[0]
        return written, self.rows[2 * PAGE + COLLATED_AT:2 * PAGE + COLLATED_AT + COLLATED_BYTES]

    def forget(self):
        self._send(FORGET, struct.pack("<Q", STREAM))
        self._told()

    def hang_up(self):
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._greeter.join()
        self._socket.close()
        self._listener.close()
        for file in (self._channel_file, self._samples_file, self._rows_file, self._bell):
            os.close(file)
