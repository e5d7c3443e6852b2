"""Streams of items: a daemon opens the right ones and shows them, and refuses the wrong ones with clear words.

No guest attaches here, so a stream that is open waits for one and delivers nothing.
"""

import json
import mmap
import os
import struct

import pytest

from support.capi import Client
from support.daemon import wait_for
from support.raw import CLOSE, CLOSE_REPLY, DOCUMENT, ITEMS, REPORT, STATUS, RawClient, Refused
from support.specs import id_spec

NOBODY = 2**64 - 1
E_INVALID_ARGUMENT, E_PROTOCOL, E_SPEC, E_BUDGET = -1, -4, -10, -12
MIB = 1 << 20


def job(count, **changes):
    whole = {"dataset": {"kind": "items", "count": count, "name": "Numbers", "crew": "00000000000000c5", "epoch": 4},
             "rows": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
             "batch": {"size": 4, "last": "keep"}}
    return whole | changes


class ItemsClient(RawClient):
    def give(self, items, hints=(), **other):
        self.send_items(items, hints, request=7, **other)

    def open(self, spec):
        """The stream's id, or (status, message)."""
        try:
            stream, parts = super().open(spec, slots=0, request=8)
        except Refused as refused:
            return refused.status, refused.text
        for fd in parts.values():
            os.close(fd)
        return stream

    def document(self, kind, stream=None):
        self.send(kind, 9, b"" if stream is None else struct.pack("<Q", stream))
        answer, _, body, fd = self.receive()
        assert answer == DOCUMENT
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as content:
            text = content[:struct.unpack_from("<Q", body)[0]]
        os.close(fd)
        return json.loads(text)


@pytest.fixture
def client(daemon):
    attached = ItemsClient(daemon.socket)
    yield attached
    attached.close()


def test_a_stream_of_items_opens_is_shown_and_closes(daemon, client):
    before = daemon.status()["memory"]["reserved"]
    client.give([8, 3, NOBODY, 8, 5], [1.0, 2.0, 1.0, 1.0, 9.5])
    stream = client.open(job(5))
    shown, = client.document(STATUS)["streams"]
    assert (shown["id"], shown["dataset"], shown["samples_in_dataset"]) == (stream, "Numbers", 5)
    assert shown["items"] == {"crew": "00000000000000c5", "epoch": 4, "nobody": 1}
    assert not shown["stopped"] and shown["batches"] == 0
    report = client.document(REPORT, stream)
    assert report["samples"] == 5 and report["failures"] == [] and "skipped_files" not in report
    account, = report["epochs"]
    assert (account["planned"], account["delivered"], account["complete"]) == (4, 0, False)
    client.send(CLOSE, 10, struct.pack("<Q", stream))
    assert client.receive()[:2] == (CLOSE_REPLY, 10)
    assert client.document(STATUS)["streams"] == []
    wait_for(lambda: daemon.status()["memory"]["reserved"] == before, 5)


def test_a_stream_that_waits_for_guests_holds_up_no_other(daemon, client, id_set):
    client.give(range(1000))
    assert isinstance(client.open(job(1000)), int)
    with Client(daemon.socket) as other:
        stream = other.open(id_spec(id_set(12)))
        assert sum(len(batch.ids()) for batch in stream.batches()) == 12
        stream.close()
    waiting, = daemon.status()["streams"]
    assert waiting["batches"] == 0 and not waiting["stopped"]


def test_nobodys_batches_need_no_guest(daemon, client):
    client.give([NOBODY] * 8)
    stream = client.open(job(8))
    wait_for(lambda: client.document(STATUS)["streams"][0]["batches"] == 2, 5)
    account, = client.document(REPORT, stream)["epochs"]
    assert account["complete"] and (account["planned"], account["padding"]) == (0, 8)


def test_no_folder_is_scanned_for_items(daemon, client):
    client.give([1, 2])
    assert isinstance(client.open(job(2)), int)
    assert client.document(STATUS)["scans_made"] == 0


WRONG = [
    (job(3, rows=[]), E_SPEC, "rows"),
    (job(3, rows=[{"name": "x", "dtype": "float64", "shape": []}]), E_SPEC, "rows[0].dtype"),
    (job(3, pipeline=[]), E_SPEC, "pipeline"),
    (job(3, shard={"rank": 0}), E_SPEC, "shard"),
    (job(3, epochs=2), E_SPEC, "epochs"),
    (job(3, order={"shuffle": True}), E_SPEC, "order.shuffle"),
    (job(4), E_PROTOCOL, "dataset.count is 4, and 3 items were given"),
    ({"dataset": {"path": "/"}}, E_PROTOCOL, "not of kind items"),
]


@pytest.mark.parametrize("spec, status, words", WRONG, ids=[words.split()[0] for _, _, words in WRONG])
def test_a_wrong_spec_is_refused_and_the_next_is_not(client, spec, status, words):
    client.give([1, 2, 3])
    refused = client.open(spec)
    assert refused[0] == status and words in refused[1]
    client.give([1, 2, 3])
    assert isinstance(client.open(job(3)), int)


@pytest.mark.parametrize("given, words", [
    ({"items": range(100), "count": 99}, "more than 792 bytes"),
    ({"items": [1, 2], "count": 3}, "has 16 bytes, allowed: 24"),
    ({"items": [1, 2], "has_hints": True}, "has 16 bytes, allowed: 32"),
    ({"items": [1, 2], "count": 0}, "an order of 0 items"),
    ({"items": [1, 2], "count": 2**61}, "allowed: 1 to 33554432"),
    ({"items": [1, 2], "hints": [1.0, -2.0]}, "the cost hint of position 1 is -2"),
    ({"items": [1, 2], "hints": [float("nan"), 1.0]}, "the cost hint of position 0 is nan"),
], ids=["long", "count", "hints", "none", "too_many", "negative", "nan"])
def test_a_wrong_order_is_the_opens_error(client, given, words):
    client.give(**given)
    refused = client.open(job(2))
    assert refused[0] == E_INVALID_ARGUMENT and words in refused[1]
    client.give([1, 2])
    assert isinstance(client.open(job(2)), int)


def test_an_order_is_for_one_stream(client):
    assert client.open(job(2)) == (E_PROTOCOL, 'dataset.kind is "items", but no items were given with the spec')
    client.give([1, 2])
    assert isinstance(client.open(job(2)), int)
    assert client.open(job(2))[0] == E_PROTOCOL


def test_parts_that_are_cut_short_or_do_not_follow_are_the_opens_error(client):
    client.send(ITEMS, 7, struct.pack("<Q", 2))
    assert client.open(job(2)) == (E_PROTOCOL, "ITEMS is too short")
    client.send(ITEMS, 7, struct.pack("<QIIQ", 2, 0, 1, 5))
    assert client.open(job(2)) == (E_PROTOCOL, "part 1 of an order of items does not follow")
    client.give(range(1000), part_bytes=8)
    assert isinstance(client.open(job(1000)), int)


def test_a_long_order_holds_up_nobody_and_counts_as_its_users(daemons):
    daemon = daemons.start("--input", "64MiB", memory="256MiB")
    client = ItemsClient(daemon.socket)
    client.send(ITEMS, 7, struct.pack("<QII", 1 << 22, 1, 0))  # its first part
    wait_for(lambda: daemon.status()["memory"]["reserved"] == 128 * MIB, 5)
    client.close()
    wait_for(lambda: daemon.status()["memory"]["reserved"] == 64 * MIB, 5)
    client = ItemsClient(daemon.socket)
    client.give([1], count=1 << 24, has_hints=True)
    status, message = client.open(job(1))
    assert status == E_BUDGET and "this order of items needs" in message
    client.close()


def test_items_beyond_the_budget_are_refused_with_the_bytes_needed(daemons):
    daemon = daemons.start("--input", "64MiB", memory="256MiB")
    client = ItemsClient(daemon.socket)
    client.give([1, 2])
    status, message = client.open(job(2, rows=[{"name": "x", "dtype": "bytes", "capacity": 64 * MIB}]))
    assert status == E_BUDGET and "this stream needs" in message
    assert daemon.status()["memory"]["reserved"] == 64 * MIB
    client.close()


def test_a_client_that_goes_takes_its_streams_along(daemon, client):
    client.give([1, 2])
    assert isinstance(client.open(job(2)), int)
    client.close()
    wait_for(lambda: daemon.status()["streams"] == [], 5)
