"""Messages that are not as shm/messages.h says: each has its clear error, and costs its sender at most the connection."""

import contextlib
import os
import struct

import pytest
from support.capi import Client
from support.daemon import wait_for
from support.raw import (CLOSE, DOCUMENT, ERROR, HELLO, HELLO_REPLY, ITEMS, OPEN, REPORT, STATUS, TRACE,
                         RawClient)
from support.specs import id_spec

PROTOCOL, VERSION, UNSUPPORTED = -4, -5, -17
GUEST = 17
MAPPED, FORGET = 13, 14
WORKER_ROLE, GUEST_ROLE = 2, 3


def error(client):
    """(status, text) of the error that comes next."""
    kind, _, body, _ = client.receive()
    assert kind == ERROR
    return struct.unpack_from("<i", body)[0], body[8:].split(b"\0")[0].decode()


def answers(client):
    client.send(STATUS, 9)
    kind, request, _, fd = client.receive()
    os.close(fd)
    return (kind, request) == (DOCUMENT, 9)


def hung_up(client):
    with contextlib.suppress(ConnectionResetError):
        with pytest.raises(ConnectionError):
            client.receive()
    client.close()
    return True


@pytest.fixture
def raw(daemon):
    """Makes connections; the daemon must be as good as new afterwards."""
    made = []

    def connect(role=1):
        made.append(RawClient(daemon.socket, role))
        return made[-1]

    yield connect
    for client in made:
        client.close()
    with Client(daemon.socket) as client:
        assert client.status()["pid"] == daemon.pid


@pytest.mark.parametrize("major, side", [(0, "the client is too old"), (2, "the daemon is too old"),
                                         (65535, "the daemon is too old")])
def test_another_major_version_is_told_whose_is_too_old(raw, major, side):
    client = raw(role=None)
    client.hello(major=major, minor=4)
    status, text = error(client)
    assert status == VERSION and side in text and f"{major}.4" in text and " 1." in text
    assert hung_up(client)
    # In another major version HELLO itself may be another struct.
    client = raw(role=None)
    client.send(HELLO, 0, b"1", major=major)
    assert error(client)[0] == VERSION


def test_other_minor_versions_are_served(raw):
    for minor in (0, 999):
        client = raw(role=None)
        client.hello(minor=minor)
        assert client.receive()[0] == HELLO_REPLY
        assert answers(client)


def test_members_that_a_newer_minor_added_are_left_unread(raw):
    client = raw(role=None)
    client.send(HELLO, 0, struct.pack("<II64s", 1, 0, b"newer") + b"and more", minor=999)
    assert client.receive()[0] == HELLO_REPLY


def test_a_message_of_a_newer_minor_is_told_that_the_daemon_is_too_old_for_it(raw):
    client = raw()
    client.send(99, 1, minor=999)
    status, text = error(client)
    assert status == PROTOCOL and "99" in text and "daemon is too old" in text and "1.999" in text
    client.send(99, 1)
    assert "too old" not in error(client)[1]
    assert answers(client)


@pytest.mark.parametrize("kind", [OPEN, CLOSE, STATUS, REPORT, TRACE, ITEMS, GUEST, MAPPED, FORGET, 0, 1 << 31])
def test_before_HELLO_nothing_is_answered(raw, kind):
    client = raw(role=None)
    client.send(kind, 1, b"\0" * 16)
    assert error(client) == (PROTOCOL, "the first message must be HELLO")


def test_a_second_HELLO_ends_the_connection(raw):
    for role in (1, GUEST_ROLE):
        client = raw()
        client.hello(role)
        assert error(client) == (PROTOCOL, "a second HELLO")
        assert hung_up(client)


@pytest.mark.parametrize("role", [0, WORKER_ROLE, 4, 1 << 31])
def test_an_unknown_role_is_refused(raw, role):
    client = raw(role=None)
    client.hello(role)
    assert error(client)[0] == UNSUPPORTED


@pytest.mark.parametrize("kind", [HELLO, OPEN, CLOSE, STATUS, REPORT, TRACE, ITEMS, GUEST, MAPPED, FORGET, 99])
def test_a_descriptor_that_nobody_asked_for_ends_the_connection(daemon, raw, kind):
    before = len(daemon.descriptors())
    client = raw()
    reading, writing = os.pipe()
    client.send(kind, 1, b"\0" * 16, fd=writing)
    os.close(writing)
    status, text = error(client)
    assert status == PROTOCOL and "descriptor" in text
    assert hung_up(client)
    assert os.read(reading, 1) == b""  # the daemon has closed its copy
    os.close(reading)
    wait_for(lambda: len(daemon.descriptors()) <= before, 5)


@pytest.mark.parametrize("kind, body, word", [
    (OPEN, b"", "OPEN"), (OPEN, b"\0" * 15, "OPEN"), (OPEN, struct.pack("<IIII", 0, 0, 9, 0) + b"short", "OPEN"),
    (OPEN, struct.pack("<IIII", 0, 0, 0xFFFFFFFF, 1), "OPEN"), (CLOSE, b"\0" * 7, "CLOSE"),
    (REPORT, b"", "REPORT")])
def test_a_message_that_is_too_short_is_told_so(raw, kind, body, word):
    client = raw()
    client.send(kind, 1, body)
    status, text = error(client)
    assert status == PROTOCOL and word in text
    assert answers(client)


def test_ITEMS_that_is_too_short_is_the_error_of_the_stream(raw):
    client = raw()
    client.send(ITEMS, 1, struct.pack("<QI", 4, 0))
    job = {"dataset": {"kind": "items", "count": 4, "name": "x", "crew": "00000000000000c5", "epoch": 0},
           "rows": [{"name": "x", "dtype": "float32", "shape": [2]}], "batch": {"size": 4, "last": "keep"}}
    client.ask_for_stream(2, job, 0)
    assert error(client) == (PROTOCOL, "ITEMS is too short")
    assert answers(client)


@pytest.mark.parametrize("kind", [OPEN, STATUS, ITEMS, MAPPED, HELLO])
def test_a_guest_says_its_crew_and_nothing_else(raw, kind):
    client = raw(GUEST_ROLE)
    client.send(kind, 1, b"\0" * 16)
    assert error(client)[0] == PROTOCOL
    assert hung_up(client)


def test_a_second_ITEMS_without_an_OPEN_ends_the_connection(raw):
    client = raw()
    for _ in range(2):
        client.send_items([1], request=3)
    assert error(client) == (PROTOCOL, "a second ITEMS without an OPEN")
    assert hung_up(client)


def test_who_does_not_read_its_answers_is_detached_and_holds_few_descriptors(daemon, raw):
    client = raw()
    before = len(daemon.descriptors())
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(500):
            client.send(STATUS, 1)
    wait_for(lambda: "does not read its answers" in daemon.log(), 10)
    assert len(daemon.descriptors()) <= before + 2 + 64  # of each that is under way the daemon watches one
    answered = 0
    with contextlib.suppress(ConnectionError):
        while True:
            os.close(client.receive()[3])
            answered += 1
    assert 0 < answered < 100
    wait_for(lambda: len(daemon.descriptors()) <= before, 5)


@pytest.mark.parametrize("kind", [CLOSE, REPORT])
def test_the_stream_of_another_connection_is_none(daemon, raw, id_set, kind):
    with Client(daemon.socket) as other:
        stream = other.open(id_spec(id_set(12)))
        number = other.status()["streams"][0]["id"]
        client = raw()
        client.send(kind, 1, struct.pack("<Q", number))
        assert error(client) == (-1, "no such stream")
        assert sum(len(batch.ids()) for batch in stream.batches()) == 12
        stream.close()
