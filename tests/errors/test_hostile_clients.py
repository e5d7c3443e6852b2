"""Clients that break the rules on purpose, over raw sockets: only they notice, nobody else waits.

The layouts spoken here are those of shm/messages.h and shm/layout.h.
"""

import contextlib
import errno
import fcntl
import itertools
import mmap
import os
import pathlib
import select
import signal
import socket
import struct
import threading
import time

from support.capi import Client
from support.daemon import wait_for
from support.raw import DOCUMENT, ERROR, OPEN_REPLY, STATUS, RawClient
from support.specs import id_spec, spec

MIB = 1 << 20
BATCHES, RETURNS, WAKE, EVENT = 1, 2, 3, 4
MAX_STREAMS = 64
MANY_OPENINGS = 80
E_BUDGET = -12


class RawStream:
    """A stream's shared memory, with the client's words in reach."""

    def __init__(self, parts):
        self.parts = parts
        self.batches = mmap.mmap(parts[BATCHES], 0, prot=mmap.PROT_READ)
        self.returns = mmap.mmap(parts[RETURNS], 0)
        self._slots, = struct.unpack_from("<I", self.batches, 40)
        self._words, = struct.unpack_from("<Q", self.batches, 72)

    def published(self):
        return struct.unpack_from("<I", self.batches, 4096)[0]

    def ask_for_events(self):
        struct.pack_into("<I", self.returns, 4, 1)

    def give_back_all(self):
        """Ends every lease: the generation is the upper half of a slot's word."""
        for slot in range(self._slots):
            word, = struct.unpack_from("<Q", self.batches, self._words + 8 * slot)
            struct.pack_into("<I", self.returns, 64 + 4 * slot, word >> 32)
        os.write(self.parts[WAKE], struct.pack("<Q", 1))


def fill(fd):
    """Puts into a descriptor all that it holds, whatever it is, and leaves it blocking for whoever shares it."""
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError, OSError):
        os.write(fd, struct.pack("<Q", 2**64 - 2))
    with contextlib.suppress(BlockingIOError, OSError):
        while True:
            os.write(fd, struct.pack("<Q", 1))
    os.set_blocking(fd, True)
    assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK


def deliver_all(daemon, folder, count):
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(folder, batch=4))
        assert sorted(i for batch in stream.batches() for i in batch.ids()) == list(range(count))
        stream.close()


def test_a_client_that_makes_the_event_descriptor_full_and_blocking_stops_nobody(daemon, id_set):
    hostile = RawClient(daemon.socket)
    stream = RawStream(hostile.open(id_spec(id_set(12), batch=1) | {"epochs": 1000})[1])
    fill(stream.parts[EVENT])
    os.set_blocking(stream.parts[WAKE], True)
    stream.ask_for_events()
    before = stream.published()

    def has_gone_on():
        stream.give_back_all()
        return stream.published() >= before + 200

    wait_for(has_gone_on, 30, "the hostile client's own stream")
    deliver_all(daemon, id_set(24), 24)
    hostile.close()


def test_many_openings_at_once_give_each_client_64_streams_and_an_error_for_each_of_the_rest(daemon, id_set):
    threads = len(os.listdir(f"/proc/{daemon.pid}/task"))
    most_threads = 0
    job = id_spec(id_set(12), batch=1)
    hostile = [RawClient(daemon.socket) for _ in range(4)]
    requests = {client: iter(range(1, MANY_OPENINGS + 1)) for client in hostile}
    answers = {client: {} for client in hostile}

    def ask(client):
        for request in itertools.islice(requests[client], 1):
            client.ask_for_stream(request, job, 1)

    for client in hostile * 4:  # who leaves more answers unread is detached
        ask(client)
    while any(len(of_client) < MANY_OPENINGS for of_client in answers.values()):
        readable, _, _ = select.select([client.socket for client in hostile], [], [])
        for client in hostile:
            if client.socket not in readable:
                continue
            kind, request, body, fd = client.receive()
            if fd is not None:
                os.close(fd)
            if kind == ERROR:
                assert struct.unpack_from("<i", body)[0] == E_BUDGET
            if kind in (ERROR, OPEN_REPLY):
                assert request not in answers[client]
                answers[client][request] = kind
                ask(client)
        most_threads = max(most_threads, len(os.listdir(f"/proc/{daemon.pid}/task")))
    assert [list(of_client.values()).count(OPEN_REPLY) for of_client in answers.values()] == [MAX_STREAMS] * 4
    assert most_threads <= threads + 12  # some for scans, some for memory; not one an opening
    deliver_all(daemon, id_set(24), 24)
    for client in hostile:
        client.close()


def test_openings_of_a_client_that_has_gone_hold_nothing(daemon, id_set):
    reserved = daemon.status()["memory"]["reserved"]
    hostile = RawClient(daemon.socket)
    for request in range(1, MAX_STREAMS + 1):
        hostile.ask_for_stream(request, id_spec(id_set(12), batch=1), 1)
    hostile.close()
    deliver_all(daemon, id_set(24), 24)
    wait_for(lambda: daemon.status()["memory"]["reserved"] == reserved, 30)
    wait_for(lambda: not daemon.status()["streams"], 30)


def test_who_closes_a_stream_and_opens_the_next_finds_its_memory_free(daemons, few_photos):
    daemon = daemons.start("--input", "64MiB", memory="192MiB")  # for one such stream and no second
    job = spec(few_photos, size=(224, 224), batch=32)
    with Client(daemon.socket) as client:
        for _ in range(20):
            stream = client.open(job)
            stream.next()[1].release()
            stream.close()


class Flood:
    """STATUS requests without a pause, each answer read. Streams of its own make every answer long, so that the
    daemon is slower than this program and never finds the socket empty."""

    STREAMS = 32

    def __init__(self, path, job):
        self._client = RawClient(path)
        for _ in range(self.STREAMS):
            for fd in self._client.open(job, slots=1)[1].values():
                os.close(fd)
        self.answered = 0
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._ask, self._read)]
        for thread in self._threads:
            thread.start()

    def _run(self, work):
        with contextlib.suppress(OSError):  # the end: the socket is shut
            while True:
                work()

    def _ask(self):
        self._client.send(STATUS, 1)

    def _read(self):
        kind, _, _, fd = self._client.receive()
        os.close(fd)
        assert kind == DOCUMENT
        self.answered += 1

    def end(self):
        self._client.close()
        for thread in self._threads:
            thread.join()


def test_a_flood_of_status_requests_keeps_no_other_client_from_its_batches(daemon, id_set):
    flood = Flood(daemon.socket, id_spec(id_set(12), batch=1))
    try:
        wait_for(lambda: flood.answered > 100, 30)
        before = flood.answered
        deliver_all(daemon, id_set(24), 24)
        assert flood.answered > before
    finally:
        flood.end()


def test_a_daemon_that_leaves_keeps_its_hands_off_the_next_ones_socket(daemon, id_set):
    for _ in range(5):
        leaving = daemon.process
        os.kill(leaving.pid, signal.SIGTERM)
        # The name goes while somebody still answers behind it: nobody meets a dead socket.
        deadline = time.monotonic() + 30
        while True:
            assert time.monotonic() < deadline
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                if (refused := probe.connect_ex(str(daemon.socket))) != 0:
                    break
        assert refused == errno.ENOENT
        daemon.start()
        assert leaving.wait(30) == 0
        assert pathlib.Path(daemon.socket).is_socket()
        assert daemon.status()["pid"] == daemon.process.pid
    deliver_all(daemon, id_set(24), 24)
