"""SIGTERM: the daemon drains within 5 s, whatever its clients are at, and gives everything back (LDR-07)."""

import contextlib
import os
import pathlib
import time

from support.daemon import marked, wait_for
from support.raw import CLOSE_REPLY, RawClient
from support.specs import id_spec, spec

CLIENTS = 100


def held_memory(pid):
    """The memory files that a process has open."""
    links = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(entry))
    return [link for link in links if link.startswith("/memfd:")]


def opened(client, job):
    """A stream is under way."""
    for fd in client.open(job)[1].values():
        os.close(fd)


def hears_the_end(client):
    try:
        while True:
            kind, _, _, fd = client.receive()
            assert kind != CLOSE_REPLY
            if fd is not None:
                os.close(fd)
    except ConnectionError:
        return True


def test_LDR_07_SIGTERM_with_100_clients_attached_ends_within_5_s_and_each_is_told(daemons, id_set):
    before = held_memory(os.getpid())
    daemon = daemons.start(memory="4GiB")
    clients = [RawClient(daemon.socket) for _ in range(CLIENTS)]
    for client in clients:
        opened(client, id_spec(id_set(500), epochs=100_000))
    assert len(held_memory(daemon.pid)) >= CLIENTS  # else there is nothing to give back
    begun = time.monotonic()
    assert daemon.stop(seconds=5) == 0
    took = time.monotonic() - begun
    assert took < 5
    assert all(hears_the_end(client) for client in clients)
    assert not daemon.socket.exists()
    # Anonymous memory lives as long as somebody holds it, and nobody is left.
    wait_for(lambda: not marked(daemons.mark), 1, lambda: marked(daemons.mark))
    assert held_memory(os.getpid()) == before
    for client in clients:
        client.close()


def test_SIGTERM_in_the_middle_of_decoding_ends_within_5_s(daemons, photos):
    daemon = daemons.start(memory="2GiB")
    client = daemons.begin(spec(photos, batch=64, epochs=1000), daemon)
    wait_for(lambda: [s for s in daemon.status()["streams"] if s["batches"] > 1])
    begun = time.monotonic()
    assert daemon.stop(seconds=5) == 0
    assert time.monotonic() - begun < 5
    client.communicate(timeout=30)
