"""A guest worker in Python: views of an item's fields, their life, Ctrl-C, forks, and orders of items."""

import array
import os
import pathlib
import signal
import threading
import time

import pytest
import speedyloader as sl
from forking import in_child
from guest_peer import CREW, OPAQUE, TWO_FIELDS, GuestPeer
from speedyloader import _core
from stalls import wait_until_in_next
from support.daemon import wait_for

pytestmark = pytest.mark.sanitized
RAISED = 16


@pytest.fixture(params=[TWO_FIELDS])
def peer(request, tmp_path):
    made = GuestPeer(tmp_path / "socket", request.param)
    yield made
    made.close()


@pytest.fixture
def guest(peer):
    made = _core.Guest(peer.path, CREW, 3)
    yield made
    made.close()


opaque = pytest.mark.parametrize("peer", [OPAQUE], indirect=True)


def maps(name):
    return pathlib.Path("/proc/self/maps").read_text().count(name)


def test_a_guest_says_which_crew_it_belongs_to(peer, guest):
    assert (peer.crew, peer.workers) == (CREW, 3)


def test_an_item_is_written_through_views_of_its_fields(peer, guest):
    peer.give(7, slot=3, seed=2**63, epoch=5)
    job = guest.next(10)
    assert (job.index, job.seed, job.epoch) == (7, 2**63, 5)
    assert [(view.nbytes, view.format, view.readonly) for view in job.fields] == [(12, "B", False), (100, "B", False)]
    job.fields[0][:] = bytes(range(12))
    job.fields[1].cast("I")[24] = 0x01020304
    job.done()
    assert peer.completions() == [(7, 0, "")]
    payload, error, rest = peer.slot(3)
    assert (payload, error, rest[:12], rest[160:164]) == (0, 0, bytes(range(12)), b"\4\3\2\1")


@opaque
def test_an_opaque_item_says_how_long_it_is(peer, guest):
    peer.give(1)
    job = guest.next(10)
    with pytest.raises(sl.SpecError, match="item 1 has a payload of 301 bytes"):
        job.done(301)
    job.fields[0][:3] = b"abc"
    job.done(3)
    assert peer.slot()[0] == 3 and peer.slot()[2][:3] == b"abc"


def test_a_failure_is_told_in_utf8_whatever_is_in_its_text(peer, guest):
    peer.give(1)
    guest.next(10).failed("b\xe4d\0 file \udcff")
    told = "b\xe4d  file \\udcff"
    assert peer.completions() == [(1, RAISED, told)]
    assert peer.slot()[2][:peer.slot()[1]].decode() == told


def test_a_job_that_was_answered_has_no_views_any_more(peer, guest):
    peer.give(1)
    job = guest.next(10)
    job.done()
    with pytest.raises(ValueError, match="released"):
        job.fields[0][0] = 1
    with pytest.raises(sl.SpecError, match="answered already"):
        job.done()


def test_what_was_made_of_a_view_stays_readable_when_stream_and_guest_are_gone(peer, guest):
    before = maps("peer_samples")
    peer.give(1)
    job = guest.next(10)
    assert maps("peer_samples") == before + 1
    kept = memoryview(job.fields[1])
    kept[0] = 9
    job.done()
    peer.forget()
    assert guest.next(0) is None
    guest.close()
    assert kept[0] == 9 and maps("peer_samples") == before + 1
    del kept, job
    assert maps("peer_samples") == before


def test_a_wait_ends_with_its_time_and_a_dead_daemon_ends_it_at_once(peer, guest):
    begin = time.monotonic()
    assert guest.next(0.12) is None
    assert 0.12 <= time.monotonic() - begin < 5
    threading.Timer(0.05, peer.hang_up).start()
    begin = time.monotonic()
    with pytest.raises(sl.DisconnectedError):
        guest.next()
    assert time.monotonic() - begin < 2


def test_where_no_daemon_is_a_guest_is_disconnected(tmp_path):
    with pytest.raises(sl.DisconnectedError, match="nowhere"):
        _core.Guest(str(tmp_path / "nowhere"), CREW, 1)


def test_ctrl_c_ends_a_wait_and_loses_no_job(peer, guest):
    def interrupt():
        wait_until_in_next(os.getpid())
        peer.give(5)
        os.kill(os.getpid(), signal.SIGINT)

    for _ in range(10):
        sender = threading.Thread(target=interrupt)
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            while True:  # the job may come before the signal does: it is given again and again
                guest.next()
        sender.join()
        job = guest.next(10)
        assert job.index == 5
        job.done()
        assert peer.completions() == [(5, 0, "")]


def test_other_threads_run_while_a_guest_waits_and_may_close_it(peer, guest):
    main = threading.get_native_id()

    def close():
        wait_until_in_next(os.getpid(), main)
        guest.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(sl.ClosedError):
        guest.next()
    closer.join()
    assert guest.closed
    with pytest.raises(sl.ClosedError):
        guest.next(0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_takes_nothing(peer, guest):
    peer.give(1)
    job = guest.next(10)

    def refused():
        for act in (lambda: guest.next(0), job.done, lambda: job.failed("no")):
            with pytest.raises(sl.ForkedError):
                act()
        guest.close()

    in_child(refused)
    job.done()
    assert peer.completions() == [(1, 0, "")]


def test_a_job_keeps_its_guest(peer):
    guest = _core.Guest(peer.path, CREW, 1)
    peer.give(1)
    job = guest.next(10)
    del guest
    job.done()
    assert wait_for(peer.completions) == [(1, 0, "")]


@pytest.mark.parametrize("items, error", [
    ((array.array("q", [1]), None), "uint64"), ((b"12345678", None), "uint64"), ([1, 2], "index, hints"),
    ((array.array("Q", [1]), array.array("Q", [1])), "float64"),
    ((array.array("Q", [1]), array.array("d", [1, 2])), "1 items and 2 hints"),
    ((memoryview(array.array("Q", [1, 2, 3]))[::2], None), "contiguous"), ((3, None), "bytes-like"),
])
def test_an_order_of_other_buffers_is_refused_before_anything_is_opened(items, error):
    with pytest.raises((TypeError, ValueError, BufferError), match=error):
        _core.Stream("{}", "/nonexistent/socket", items=items)


def test_an_empty_order_is_refused(shared_daemon):
    with pytest.raises(sl.SpecError, match="count is 0"):
        _core.Stream("{}", str(shared_daemon.socket), items=(array.array("Q"), None))
