"""What one user may have of a shared daemon: beyond it is an error with the limit's name, and costs others nothing."""

import contextlib
import os
import socket
import struct
import time

import pytest
from support.capi import Client, Error
from support.daemon import wait_for
from support.raw import ERROR, HEAD, HELLO, STATUS, RawClient
from support.specs import id_spec
from support.users import MEMBER, OTHER_MEMBER, STRANGER, root

MIB = 1 << 20
GREETING_DEADLINE = 10


def limited(tree, **limits):
    lines = "".join(f"{name} = {value}\n" for name, value in limits.items())
    return f"[limits]\n{lines}{root(tree / 'root')}"


def beyond(error, name, number):
    assert error.value.code == "SL_E_BUDGET"
    assert f"[limits] {name}" in error.value.message and str(number) in error.value.message


def test_a_user_has_so_many_streams_over_all_its_clients(serve, tree):
    daemon = serve(limited(tree, streams=3))
    job = id_spec(tree / "root" / "train", batch=4)
    with MEMBER.client(daemon) as one, MEMBER.client(daemon) as two, OTHER_MEMBER.client(daemon) as other:
        streams = [one.open(job), one.open(job), two.open(job)]
        for client in (one, two):
            with pytest.raises(Error) as refused:
                client.open(job)
            beyond(refused, "streams", 3)
        other.open(job).close()
        streams.pop().close()
        two.open(job).close()
        with Client(daemon.socket) as own:
            for stream in [own.open(job) for _ in range(5)]:
                stream.close()


def test_a_user_has_so_many_clients_guests_included(serve, tree):
    daemon = serve(limited(tree, clients=3))
    clients = [MEMBER.client(daemon) for _ in range(3)]
    with pytest.raises(Error) as refused:
        MEMBER.client(daemon)
    beyond(refused, "clients", 3)
    OTHER_MEMBER.client(daemon).disconnect()
    for _ in range(5):
        Client(daemon.socket).disconnect()
    clients.pop().disconnect()
    wait_for(lambda: len(clients[0].status()["sessions"]) == 2, 5)
    clients.append(MEMBER.client(daemon))
    for client in clients:
        client.disconnect()


def test_a_user_reserves_so_much_memory(serve, tree):
    daemon = serve(limited(tree, bytes='"8 MiB"'))
    job = id_spec(tree / "root" / "train", batch=4)
    large = id_spec(tree / "root" / "train", batch=4)
    large["pipeline"][1]["size"] = [700, 700]
    with MEMBER.client(daemon) as client, OTHER_MEMBER.client(daemon) as other:
        with pytest.raises(Error) as refused:
            client.open(large)
        beyond(refused, "bytes", 8 * MIB)
        assert f"user {MEMBER.uid}" in refused.value.message
        kept = client.open(job)
        other.open(job).close()
        kept.close()
        with Client(daemon.socket) as own:
            own.open(large).close()


def test_a_user_connects_so_often_and_others_are_not_kept_waiting(serve, tree):
    daemon = serve(limited(tree, connects=5))
    refused = 0
    began = time.monotonic()
    for _ in range(60):
        try:
            MEMBER.client(daemon).disconnect()
        except Error as error:
            assert error.code == "SL_E_BUDGET" and "[limits] connects" in error.message
            refused += 1
    # The bucket's five, and five more each second.
    allowed = 60 - refused
    assert 5 <= allowed <= 6 + 5 * (time.monotonic() - began)
    OTHER_MEMBER.client(daemon).disconnect()
    wait_for(lambda: _connects(daemon), 5)
    assert daemon.log().count("refused: user") <= 2 + time.monotonic() - began


def _connects(daemon, clients=1):
    """Whether so many can at a time."""
    with contextlib.suppress(Error), contextlib.ExitStack() as connected:
        for _ in range(clients):
            connected.enter_context(MEMBER.client(daemon))
        return True
    return False


def test_a_refused_client_that_says_hello_late_is_told_all_the_same(serve, tree):
    daemon = serve(limited(tree, clients=1))
    kept = MEMBER.client(daemon)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as late:
        with MEMBER.acting():
            late.connect(str(daemon.socket))
        late.settimeout(5)
        daemon.status()  # it has been accepted
        late.send(HEAD.pack(HEAD.size + 72, 1, 0, HELLO, 77) + struct.pack("<II64s", 1, 0, b"late"))
        data = late.recv(65536)
        *_, kind, request = HEAD.unpack_from(data)
        assert (kind, request) == (ERROR, 77) and b"[limits] clients" in data
        assert late.recv(65536) == b""
    kept.disconnect()


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_client_that_says_nothing_costs_next_to_nothing_and_is_detached(serve, tree):
    daemon = serve(limited(tree, clients=300, connects=0))
    before, descriptors = resident(daemon.pid), len(daemon.descriptors())
    silent = []
    with MEMBER.acting():
        for _ in range(300):
            silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            silent[-1].connect(str(daemon.socket))
    with pytest.raises(Error):
        MEMBER.client(daemon)  # they count
    with STRANGER.acting():
        silent.append(RawClient(daemon.socket, role=3).socket)  # a guest that never says its crew
    began = time.monotonic()
    assert resident(daemon.pid) - before < 300 * 8192
    with OTHER_MEMBER.client(daemon) as other:
        stream = other.open(id_spec(tree / "root" / "train", batch=4))
        assert len([i for batch in stream.batches() for i in batch.ids()]) == 12
        stream.close()
    for each in silent:
        each.settimeout(GREETING_DEADLINE + 5)
        with contextlib.suppress(ConnectionError):
            assert each.recv(16) == b""
        each.close()
    assert GREETING_DEADLINE - 2 < time.monotonic() - began < GREETING_DEADLINE + 4
    wait_for(lambda: len(daemon.descriptors()) <= descriptors + 2, 5)


def unread_answers(daemon):
    """A connection of MEMBER's that was hung up on for reading none of its answers."""
    client = MEMBER.raw(daemon)
    client.socket.settimeout(5)
    with contextlib.suppress(OSError):
        for _ in range(200):
            client.send(STATUS, 1)
    return client


def test_who_was_hung_up_on_counts_until_its_answers_are_read_or_thrown_away(serve, tree):
    daemon = serve(limited(tree, clients=3, connects=0))
    ended = [unread_answers(daemon) for _ in range(3)]
    wait_for(lambda: not daemon.status()["others"]["sessions"] and len(daemon.status()["sessions"]) == 1, 10)
    with pytest.raises(Error) as refused:
        MEMBER.client(daemon)
    beyond(refused, "clients", 3)
    OTHER_MEMBER.client(daemon).disconnect()
    ended.pop().close()
    wait_for(lambda: _connects(daemon), 5)
    for client in ended:
        with contextlib.suppress(ConnectionError):
            while True:
                fd = client.receive()[3]
                if fd is not None:
                    os.close(fd)
    wait_for(lambda: _connects(daemon, 3), 5)
    for client in ended:
        client.close()


def test_streams_that_nobody_takes_are_not_sent_without_end(serve, tree):
    """Each has four descriptors, which count for the daemon until they are read."""
    daemon = serve(root(tree / "root"))
    client = MEMBER.raw(daemon)
    with contextlib.suppress(OSError):
        for request in range(60):
            client.ask_for_stream(request, id_spec(tree / "root" / "train", batch=4), 2)
    wait_for(lambda: "does not read its answers" in daemon.log(), 10)
    taken = 0
    with contextlib.suppress(ConnectionError):
        while True:
            fd = client.receive()[3]
            if fd is not None:
                os.close(fd)
                taken += 1
    assert taken <= 40
    client.close()
