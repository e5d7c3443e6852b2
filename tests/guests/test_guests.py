"""Items made by guest workers: each delivered once, in order, whoever makes them and whatever becomes of them."""

import pytest
from item_guests import WORDS, item_spec
from support.capi import Client
from support.daemon import wait_for

COUNT = 200


def rows_of(stream):
    """[(position, item, epoch)] of all valid rows, in the order of delivery; the words of each row are checked."""
    rows = []
    for batch in stream.batches():
        words = batch.array("x").reshape(-1, WORDS)
        for row, (position, valid) in enumerate(zip(batch.ids(), batch.valid())):
            if not valid:
                assert not words[row].any()
                continue
            item = int(words[row][0]) // 1000
            assert words[row].tolist() == [item * 1000 + i for i in range(WORDS)]
            rows.append((position, item, int(batch.array("epoch")[row])))
    return rows


def shuffled(count):
    return [(i * 7919 + 13) % count for i in range(count)]


@pytest.mark.parametrize("policy", ["strict", "ready"])
def test_every_item_comes_once_in_its_place_over_epochs(daemons, crews, policy):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start(number=2)
    order = shuffled(COUNT)
    with Client(daemon.socket) as client:
        for epoch in range(3):
            stream = client.open(item_spec(COUNT, guests.crew, epoch=epoch, policy=policy), items=(order, None))
            rows = rows_of(stream)
            report = stream.report()
            stream.close()
            assert sorted(rows) == [(i, item, epoch) for i, item in enumerate(order)]
            if policy == "strict":
                assert rows == sorted(rows)
            assert report["epochs"][0]["delivered"] == COUNT
        done = guests.status()
        assert sum(guest["completed"] for guest in done["guests"]) == 3 * COUNT
        assert (done["workers"], done["lost"]) == (2, 0)
        assert all(worker["completed"] == 0 for worker in daemon.status()["workers"])


def test_a_stream_waits_for_its_first_guest(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon, workers=1)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew), items=(shuffled(COUNT), None))
        assert stream.next(300)[0] == 3, "no batch without a guest"
        guests.start()
        assert len(rows_of(stream)) == COUNT
        stream.close()


def test_a_row_of_nobody_is_zeros_and_an_item_may_come_twice(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start(number=2)
    nobody = 2**64 - 1
    order = [5, 5, nobody, 9, 9, 9, nobody, nobody, 0, 1]
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(len(order), guests.crew, batch=4), items=(order, None))
        rows = rows_of(stream)
        report = stream.report()
        stream.close()
    assert [(position, item) for position, item, _ in rows] == [
        (i, item) for i, item in enumerate(order) if item != nobody]
    assert report["failure_count"] == 0


def test_opaque_rows_have_their_own_lengths(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start(number=2)
    order = shuffled(COUNT)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew, batch=8, capacity=4096), items=(order, None))
        seen = []
        for batch in stream.batches():
            for position, row, length in zip(batch.ids(), batch.array("item"), batch.array("item_bytes")):
                item = order[position]
                assert length == item % 50 + 1
                assert row[:length].tolist() == [item & 255] * int(length)
                seen.append(position)
        stream.close()
    assert seen == list(range(COUNT))


def test_two_crews_and_a_native_stream_at_once(daemons, crews, id_set):
    from support.specs import id_spec

    daemon = daemons.start()
    ours, theirs = crews(daemon), crews(daemon, workers=1)
    ours.start("--delay-us", 200, number=2)
    theirs.start("--delay-us", 200)
    native = daemons.begin(id_spec(id_set(500), batch=10, epochs=2), daemon)
    with Client(daemon.socket) as client, Client(daemon.socket) as other:
        order = shuffled(COUNT)
        mine = client.open(item_spec(COUNT, ours.crew), items=(order, None))
        its = other.open(item_spec(COUNT, theirs.crew, policy="ready"), items=(order, None))
        assert [row[1] for row in rows_of(mine)] == order
        assert sorted(row[1] for row in rows_of(its)) == sorted(order)
        assert len(daemon.status()["crews"]) == 2
    out, err = native.communicate(timeout=60)
    assert native.returncode == 0, err
    wait_for(lambda: daemon.status()["crews"] == [], 10, "both crews gone with their clients")
    assert ours.ends() + theirs.ends() == ["SL_E_DISCONNECTED"] * 3
