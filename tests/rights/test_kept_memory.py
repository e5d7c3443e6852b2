"""Memory that a client keeps of what it has closed counts as its user's, until it lets go of it."""

import os
import struct
import time

import pytest
from support.capi import Client
from support.daemon import wait_for
from support.raw import CLOSE, CLOSE_REPLY, DOCUMENT, ERROR, SEGMENT, STATUS, TRACE, RawClient, Refused
from support.specs import id_spec
from support.users import MEMBER, OTHER_MEMBER, root

MIB = 1 << 20
BATCHES = 1


def limited(tree, **limits):
    lines = "".join(f"{name} = {value}\n" for name, value in limits.items())
    return f"[limits]\n{lines}{root(tree / 'root')}"


class Keeper:
    """A client of a user's that keeps every descriptor which it is sent."""

    def __init__(self, daemon, user):
        with user.acting():
            self.raw = RawClient(daemon.socket)
        self.kept = []

    def open(self, job):
        """The new stream's id, or the error's text."""
        try:
            stream, parts = self.raw.open(job)
        except Refused as refused:
            return refused.text
        self.kept += parts.values()
        return stream

    def close(self, stream):
        self.raw.send(CLOSE, 2, struct.pack("<Q", stream))
        assert self.raw.receive()[0] == CLOSE_REPLY

    def ask(self, kind):
        """A document's descriptor, or the error's text."""
        self.raw.send(kind, 3)
        answer, _, body, fd = self.raw.receive()
        if answer == ERROR:
            return Refused(body).text
        assert answer == DOCUMENT
        return fd

    def let_go(self):
        while self.kept:
            os.close(self.kept.pop())

    def end(self):
        self.let_go()
        self.raw.close()


@pytest.fixture
def keeper():
    made = []

    def make(daemon, user=MEMBER):
        made.append(Keeper(daemon, user))
        return made[-1]

    yield make
    for each in made:
        each.end()


def kept(daemon):
    return daemon.status()["memory"]["kept"]


def test_bytes_count_until_the_descriptors_are_closed(serve, tree, keeper):
    daemon = serve(limited(tree, bytes='"18 MiB"'))
    job = id_spec(tree / "root" / "train", batch=4)
    job["pipeline"][1]["size"] = [320, 320]  # 16.4 MiB, 2.4 of them batches
    hostile, other = keeper(daemon), keeper(daemon, OTHER_MEMBER)
    first = hostile.open(job)
    hostile.close(first)
    wait_for(lambda: kept(daemon) > 2 * MIB, 5)
    refused = hostile.open(job)
    assert "[limits] bytes" in refused and "somebody still holds" in refused, refused
    assert isinstance(other.open(job), int)
    hostile.let_go()
    assert isinstance(hostile.open(job), int)
    assert kept(daemon) == 0


def test_an_opening_waits_a_moment_for_memory_that_is_about_to_go(serve, tree, keeper):
    daemon = serve(limited(tree, bytes='"18 MiB"'))
    job = id_spec(tree / "root" / "train", batch=4)
    job["pipeline"][1]["size"] = [320, 320]
    client = keeper(daemon)
    client.close(client.open(job))
    client.raw.ask_for_stream(1, job, 2)
    daemon.status()  # it has been looked at
    client.let_go()
    assert client.raw.receive()[0] == SEGMENT


def test_closed_streams_count_among_the_streams_while_they_are_kept(serve, tree, keeper):
    daemon = serve(limited(tree, streams=3))
    job = id_spec(tree / "root" / "train", batch=4)
    hostile = keeper(daemon)
    for _ in range(3):
        hostile.close(hostile.open(job))
    assert "[limits] streams" in hostile.open(job)
    hostile.let_go()
    assert isinstance(hostile.open(job), int)


def test_a_map_alone_keeps_it_too(serve, tree):
    daemon = serve(limited(tree, streams=8))
    with Client(daemon.socket) as own:
        stream = own.open(id_spec(tree / "root" / "train", batch=4))
        batch = next(iter(stream.batches()))
        stream.close()
        wait_for(lambda: kept(daemon) > 0, 5)
        batch.release()
        wait_for(lambda: kept(daemon) == 0, 5)


def test_a_client_that_dies_keeps_nothing(serve, tree, keeper):
    daemon = serve(root(tree / "root"))
    reserved, descriptors = daemon.status()["memory"]["reserved"], len(daemon.descriptors())
    hostile = keeper(daemon)
    for _ in range(5):
        hostile.close(hostile.open(id_spec(tree / "root" / "train", batch=4)))
    wait_for(lambda: kept(daemon) > 0, 5)
    hostile.end()
    wait_for(lambda: kept(daemon) == 0, 5)
    wait_for(lambda: len(daemon.descriptors()) <= descriptors + 2, 10)
    wait_for(lambda: daemon.status()["memory"]["reserved"] == reserved, 10)


@pytest.mark.parametrize("kind", [STATUS, TRACE], ids=["status", "trace"])
def test_answers_that_are_kept_are_bounded_by_user(serve, tree, keeper, kind):
    daemon = serve(root(tree / "root"))
    hostile, other = keeper(daemon), keeper(daemon, OTHER_MEMBER)
    answer = hostile.ask(kind)
    while isinstance(answer, int):
        hostile.kept.append(answer)
        assert len(hostile.kept) <= 64
        answer = hostile.ask(kind)
    assert "keeps as many answers" in answer
    os.close(other.ask(kind))
    os.close(hostile.kept.pop())
    answer = hostile.ask(kind)
    assert isinstance(answer, int)
    os.close(answer)


def test_who_makes_much_memory_holds_up_nobody(serve, tree, keeper):
    """While the kernel clears gigabytes for one, the daemon answers another."""
    daemon = serve(f"[limits]\nbytes = 0\n{root(tree / 'root')}", memory="8GiB")
    large = id_spec(tree / "root" / "train", batch=64)
    large["pipeline"][1]["size"] = [2048, 2048]  # 2 slots of 0.8 GB
    client = keeper(daemon)
    warm = client.open(id_spec(tree / "root" / "train", batch=4))
    assert isinstance(warm, int), warm
    answered = 0
    client.raw.ask_for_stream(1, large, 2)
    client.raw.socket.setblocking(False)
    with OTHER_MEMBER.client(daemon) as other:
        while True:
            other.status()
            try:
                kind, _, body, fd = client.raw.receive()
                break
            except BlockingIOError:
                # Only those while its memory is made: it is on the user's account by then.
                answered += daemon.status()["memory"]["reserved"] > 1 << 30
                time.sleep(0.002)
    assert kind == SEGMENT, body
    client.kept.append(fd)
    assert answered > 2
