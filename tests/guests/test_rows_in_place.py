"""Rows that guests write straight into their batch: what a consumer holds stays as it is, and a guest that garbles all
it was given harms its own stream and nobody else."""

import mmap
import os
import socket
import struct

import pytest
from item_guests import item_spec
from support.capi import Client, Error
from support.daemon import wait_for
from support.raw import HELLO_REPLY, SEGMENT, RawClient
from test_guests import COUNT, rows_of, shuffled

GUEST_ROLE, GUEST, MAPPED = 3, 17, 13
SAMPLES, ROWS = 7, 8
TRACE_ROW = 4
ALL = list(range(COUNT))


@pytest.mark.parametrize("policy", ["strict", "ready"])
def test_in_strict_order_no_thread_copies_a_row_whose_batch_is_open(daemons, crews, policy):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start(number=2)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew, policy=policy), items=(ALL, None), slots=16)
        assert sorted(row[1] for row in rows_of(stream)) == ALL
        copied = [event for event in client.trace()[0] if event.kind == TRACE_ROW]
        assert len(copied) == (0 if policy == "strict" else COUNT)
        stream.close()


def test_the_bytes_are_the_same_for_any_number_of_guests_and_slots(daemons, crews):
    seen = []
    for number, slots in ((1, 1), (1, 16), (3, 2)):
        daemon = daemons.start()
        guests = crews(daemon, workers=number)
        guests.start(number=number)
        with Client(daemon.socket) as client:
            stream = client.open(item_spec(COUNT, guests.crew, epoch=3), items=(shuffled(COUNT), None), slots=slots)
            seen.append([[batch.raw(name) for name in ("x", "epoch", "sample_id", "valid")]
                         for batch in stream.batches()])
            stream.close()
    assert seen[0] == seen[1] == seen[2]


def test_a_batch_that_is_held_is_never_written_to(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start(number=2)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew, batch=4), items=(shuffled(COUNT), None), slots=4)
        held = [stream.next()[1] for _ in range(3)]
        before = [batch.raw("x") for batch in held]
        rest = rows_of(stream)
        assert [batch.raw("x") for batch in held] == before
        assert len(rest) == COUNT - 12
        for batch in held:
            batch.release()
        stream.close()


@pytest.mark.parametrize("errors", ["refill", "placeholder"])
def test_items_that_fail_and_guests_that_die_leave_no_trace_in_their_rows(daemons, crews, open_folder, errors):
    daemon = daemons.start()
    guests = crews(daemon, workers=3)
    guests.start("--fail", 50, "--die-once", 70, open_folder / "died", number=3)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew, errors={"policy": errors}), items=(ALL, None))
        rows = rows_of(stream)
        report = stream.report()
        assert guests.status()["lost"] == 1
        stream.close()
    assert len(rows) == (COUNT if errors == "refill" else COUNT - 1)
    assert all(item == position != 50 for position, item, _ in rows)
    assert [failure["sample_id"] for failure in report["failures"]] == [50]


def test_streams_that_are_closed_while_guests_write_give_their_memory_back(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--delay-us", 500, number=2)
    idle = daemon.status()["memory"]["reserved"]
    with Client(daemon.socket) as client:
        for _ in range(20):
            stream = client.open(item_spec(COUNT, guests.crew, batch=4), items=(ALL, None))
            stream.next()[1].release()
            stream.close()
        wait_for(lambda: daemon.status()["memory"]["reserved"] == idle, 10, "the streams' memory")
        stream = client.open(item_spec(COUNT, guests.crew), items=(ALL, None))
        assert [row[1] for row in rows_of(stream)] == ALL
        assert guests.status()["lost"] == 0
        stream.close()


class RawGuest(RawClient):
    """A guest that takes what it is given and does no job; `segments`: what it was sent, by kind."""

    def __init__(self, path, crew):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.send(1, 0, struct.pack("<II64s", GUEST_ROLE, 0, b"hostile"))
        assert self.receive()[0] == HELLO_REPLY
        self.send(GUEST, 1, struct.pack("<QII", int(crew, 16), 2, 0))
        self.segments = {}

    def hear(self):
        """Up to a stream's samples; says MAPPED."""
        while SAMPLES not in self.segments:
            kind, _, body, fd = self.receive()
            if kind == SEGMENT:
                stream, number = struct.unpack_from("<QI", body)
                self.segments[number] = fd
        self.send(MAPPED, 0, struct.pack("<Q", stream))


def garble(fd):
    """Overwrites all of a segment, again and again while others write to it too."""
    size = os.fstat(fd).st_size
    with mmap.mmap(fd, size) as memory:
        for byte in (0xFF, 0x00, 0x01, 0x5A) * 3:
            memory[:] = bytes([byte]) * size


@pytest.mark.parametrize("collate", [None, 4096])
def test_a_guest_that_garbles_the_batches_harms_its_own_stream_only(daemons, crews, id_set, collate):
    from support.specs import id_spec

    daemon = daemons.start()
    hostile, honest = crews(daemon), crews(daemon)
    hostile.start("--delay-us", 100)
    honest.start()
    raw = RawGuest(daemon.socket, hostile.crew)
    spec = item_spec(COUNT, hostile.crew, batch=8, capacity=4096 if collate else None, collate=collate)
    with Client(daemon.socket) as client, Client(daemon.socket) as other:
        stream = client.open(spec, items=(ALL, None), slots=4)
        raw.hear()
        assert ROWS in raw.segments
        garble(raw.segments[ROWS])
        garble(raw.segments[SAMPLES])
        mine = client.status()["streams"][0]
        assert mine["batches"] <= COUNT // 8 and mine["samples"] <= COUNT and mine["failed"] == 0, mine
        for _ in range(4):
            try:
                status, batch = stream.next(2000)
            except Error as error:
                assert error.code in ("SL_E_PROTOCOL", "SL_E_SAMPLE", "SL_E_INTERNAL"), error
                break
            if batch is not None:
                batch.release()
            garble(raw.segments[ROWS])
        order = shuffled(COUNT)
        theirs = other.open(item_spec(COUNT, honest.crew), items=(order, None))
        assert [row[1] for row in rows_of(theirs)] == order
        theirs.close()
        native = other.open(id_spec(id_set(24), batch=4))
        assert sorted(i for batch in native.batches() for i in batch.ids()) == list(range(24))
        native.close()
        stream.close()
    raw.close()
    wait_for(lambda: daemon.status()["streams"] == [], 10, "all streams gone")
    assert daemon.process.poll() is None
