"""Batches that a guest in Python collates: what it is given to read and to write, and how long that stays."""

import pytest
import speedyloader as sl
from guest_peer import COLLATED, CREW, GuestPeer
from speedyloader import _core

pytestmark = pytest.mark.sanitized
COLLATE_FAILED = 17


@pytest.fixture
def peer(tmp_path):
    made = GuestPeer(tmp_path / "socket", COLLATED)
    yield made
    made.close()


@pytest.fixture
def guest(peer):
    made = _core.Guest(peer.path, CREW, 3)
    yield made
    made.close()


def test_a_batch_is_collated_from_views_of_its_valid_rows(peer, guest):
    peer.give_batch(5, [b"one", None, b"three"], seed=9, epoch=2)
    job = guest.next(10)
    assert job.collate and (job.index, job.seed, job.epoch) == (5, 9, 2)
    assert [bytes(row) for row in job.rows] == [b"one", b"three"]
    assert all(type(row) is memoryview and row.readonly for row in job.rows)
    (whole,) = job.fields
    assert whole.nbytes == 100 and not whole.readonly
    whole[:8] = b"".join(job.rows)
    rows = job.rows
    with pytest.raises(sl.SpecError, match="batch 5 takes 101 bytes when collated; there are 100"):
        job.done(101)
    job.done(8)
    assert peer.completions() == [(5, 0, "")]
    written, text = peer.collated()
    assert (written, text[:8]) == (8, b"onethree")
    for view in (whole, *rows):
        with pytest.raises(ValueError, match="released"):
            bytes(view)


def test_an_item_is_no_batch(peer, guest):
    peer.give(1)
    job = guest.next(10)
    assert not job.collate and job.rows == []
    job.fields[0][:3] = b"abc"
    job.done(3)
    assert peer.slot()[2][:3] == b"abc"


def test_a_batch_that_cannot_be_collated_says_why(peer, guest):
    peer.give_batch(5, [b"one"])
    job = guest.next(10)
    job.failed("TypeError: \u00e4")
    assert peer.completions() == [(5, COLLATE_FAILED, "TypeError: \u00e4")]
    written, text = peer.collated()
    assert text[:written].decode() == "TypeError: \u00e4"


def test_a_row_that_is_kept_is_stale_and_no_fault(peer, guest):
    peer.give_batch(5, [b"one"])
    job = guest.next(10)
    kept = memoryview(job.rows[0])
    job.done(0)
    peer.forget()
    assert guest.next(0.05) is None
    assert bytes(kept) == b"one"
