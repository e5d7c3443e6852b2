"""Batches that guests collate: each is its valid rows', whoever collates it; what goes wrong ends the stream there."""

import signal

import pytest
from item_guests import item_spec
from support.capi import Client, Error
from support.daemon import wait_for
from test_guests import shuffled

COUNT, BATCH, CAPACITY = 200, 8, 4096
NOBODY = 2**64 - 1


def collated_spec(crew, count=COUNT, **rest):
    return item_spec(count, crew, batch=BATCH, capacity=CAPACITY, collate=50 * BATCH, **rest)


def payload(item):
    return bytes([item & 255]) * (item % 50 + 1)


def deliver(stream, order):
    """Takes all batches; each must be what its rows are. The positions that came, in order."""
    seen = []
    for batch in stream.batches():
        positions = [position for position, valid in zip(batch.ids(), batch.valid()) if valid]
        (length,) = batch.array("collated_bytes")
        whole = batch.array("collated")
        assert whole.shape == (50 * BATCH,)
        assert whole[:length].tobytes() == b"".join(payload(order[position]) for position in positions)
        for row, (position, valid) in enumerate(zip(batch.ids(), batch.valid())):
            bytes_of_row = batch.array("item_bytes")[row]
            assert batch.array("item")[row][:bytes_of_row].tobytes() == (payload(order[position]) if valid else b"")
        seen += positions
    return seen


@pytest.mark.parametrize("policy", ["strict", "ready"])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_batch_is_collated_by_a_guest_and_comes_in_its_place(daemons, crews, policy, workers):
    daemon = daemons.start()
    guests = crews(daemon, workers)
    guests.start(number=workers)
    order = shuffled(COUNT)
    with Client(daemon.socket) as client:
        for epoch in range(3):
            stream = client.open(collated_spec(guests.crew, policy=policy, epoch=epoch), items=(order, None))
            seen = deliver(stream, order)
            stream.close()
            assert sorted(seen) == list(range(COUNT))
            if policy == "strict":
                assert seen == sorted(seen)
        assert guests.status()["lost"] == 0


def test_only_valid_rows_are_collated_and_a_batch_without_any_is_not(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--fail", 60, "--fail-batch", 1, number=2)  # the batch of nobody's
    order = [7, NOBODY, 60, 9, 9, NOBODY, 1, 2] + [NOBODY] * BATCH + [3, 60]
    spec = collated_spec(guests.crew, len(order), errors={"policy": "placeholder"})
    with Client(daemon.socket) as client:
        stream = client.open(spec, items=(order, None))
        assert deliver(stream, order) == [0, 3, 4, 6, 7, 16]
        stream.close()


@pytest.mark.parametrize("policy", ["fail", "refill", "placeholder"])
def test_a_batch_that_cannot_be_collated_ends_the_stream_there_with_its_text(daemons, crews, policy):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--fail-batch", 5, number=2)
    order = shuffled(COUNT)
    with Client(daemon.socket) as client:
        stream = client.open(collated_spec(guests.crew, errors={"policy": policy}), items=(order, None))
        delivered = []
        with pytest.raises(Error) as caught:
            for batch in stream.batches():
                delivered += batch.ids()
        assert delivered == list(range(5 * BATCH))
        error = caught.value
        assert (error.code, error.kind, error.sample_id) == ("SL_E_SAMPLE", "collate", 5 * BATCH)
        text = "Traceback (most recent call last):\n  line 1\nValueError: batch 5 \u00e4"
        assert error.message == text
        (failure,) = stream.report()["failures"]
        assert (failure["kind"], failure["batch"], failure["reason"]) == ("collate", 5, text)
        stream.close()
        again = client.open(item_spec(3, guests.crew), items=([1, 2, 3], None))
        assert len(list(again.batches())) == 1, "the guests have gone on"


def test_a_batch_is_given_again_when_its_guest_dies(daemons, crews, open_folder):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--die-once-in-batch", 3, open_folder / "died", number=2)
    order = shuffled(COUNT)
    with Client(daemon.socket) as client:
        stream = client.open(collated_spec(guests.crew), items=(order, None))
        assert deliver(stream, order) == list(range(COUNT))
        assert guests.status()["lost"] == 1
        stream.close()


def test_a_batch_that_ends_its_guest_twice_is_poison(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon, workers=3)
    guests.start("--die-in-batch", 3, number=3)
    order = shuffled(COUNT)
    with Client(daemon.socket) as client:
        stream = client.open(collated_spec(guests.crew, errors={"policy": "placeholder"}), items=(order, None))
        with pytest.raises(Error) as caught:
            deliver(stream, order)
        assert (caught.value.kind, caught.value.sample_id) == ("poison", 3 * BATCH)
        assert "collated" in caught.value.message
        assert len(guests.status()["guests"]) == 1
        stream.close()


def test_a_batch_that_takes_too_long_fails_and_its_guest_is_killed(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    processes = guests.start("--stick-in-batch", 3, number=2)
    order = shuffled(COUNT)
    errors = {"policy": "refill", "timeout_s": 0.5}
    with Client(daemon.socket) as client:
        stream = client.open(collated_spec(guests.crew, errors=errors), items=(order, None))
        with pytest.raises(Error) as caught:
            deliver(stream, order)
        assert (caught.value.kind, caught.value.sample_id) == ("timeout", 3 * BATCH)
        assert "0.5 s" in caught.value.message
        stream.close()
    wait_for(lambda: sorted(p.poll() == -signal.SIGKILL for p in processes) == [False, True], 10)


def test_a_stream_that_is_closed_while_a_guest_collates_gives_its_memory_back(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--delay-us", 3000, number=2)
    idle = daemon.status()["memory"]["reserved"]
    with Client(daemon.socket) as client:
        for _ in range(10):
            stream = client.open(collated_spec(guests.crew), items=(shuffled(COUNT), None))
            status, batch = stream.next()
            assert status == 0
            batch.release()
            stream.close()
        wait_for(lambda: daemon.status()["memory"]["reserved"] == idle, 10, "the streams' memory")
        assert guests.status()["lost"] == 0
