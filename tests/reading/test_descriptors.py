"""Few descriptors are enough, in the daemon and in the client (LDR-11)."""

import os
import resource

import pytest

import test_card
from support.capi import Client
from support.specs import id_spec

COUNT = 10_000
FEW = ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh"]


@pytest.fixture(scope="module")
def many_files(session_folder):
    """COUNT names of one picture: what is counted here are open files, and links are made and removed quickly."""
    folder = session_folder / "many" / "class"
    (first,) = test_card.id_pictures(session_folder / "one", 1, size=(2, 2))
    folder.mkdir(parents=True)
    for number in range(COUNT):
        os.link(first, folder / f"{number:06d}.png")
    return folder.parent


@pytest.mark.parametrize("backend", ["uring", "threads"])
def test_LDR_11_a_daemon_with_64_descriptors_finishes_10000_files_with_16_reads_in_flight(daemons, many_files,
                                                                                          backend):
    daemon = daemons.start("--io", backend, "--io-entries", 16, "--io-threads", 16, wrap=FEW)
    assert resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)[0] == 64
    got = daemons.run(id_spec(many_files, batch=64), daemon)
    assert sorted(got["ids"][0]) == list(range(COUNT))
    assert got["failed"] == 0


def test_LDR_11_a_clients_descriptors_do_not_grow_with_the_batches_it_holds(daemon, id_set):
    before = len(os.listdir("/proc/self/fd"))
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(id_set(500), batch=4), slots=64)
        held = [stream.next()[1] for _ in range(60)]
        open_now = len(os.listdir("/proc/self/fd")) - before
        assert open_now <= 8
        for batch in reversed(held):
            batch.release()
        assert sum(1 for _ in stream.batches()) == 500 // 4 - 60
        assert len(os.listdir("/proc/self/fd")) - before == open_now
        stream.close()
    assert len(os.listdir("/proc/self/fd")) == before
