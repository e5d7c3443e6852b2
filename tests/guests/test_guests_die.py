"""Guests, clients and daemons end in the middle of items: nothing is lost, nobody waits in vain."""

import os
import signal
import time

import pytest
from item_guests import item_spec
from support.capi import NO_RECONNECT, Client, Error
from support.daemon import wait_for
from test_guests import COUNT, rows_of, shuffled

ALL = list(range(COUNT))


def test_the_item_of_a_guest_that_is_killed_is_made_by_another(daemons, crews, open_folder):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--die-once", 50, open_folder / "died", number=2)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew), items=(ALL, None))
        assert [row[1] for row in rows_of(stream)] == ALL
        report = stream.report()
        assert guests.status()["lost"] == 1
        assert len(guests.status()["guests"]) == 1, "nobody starts another"
        stream.close()
    assert report["failure_count"] == 0


def test_an_item_that_ends_its_guest_twice_is_poison(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon, workers=3)
    guests.start("--die", 50, number=3)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew, errors={"policy": "placeholder"}), items=(ALL, None))
        assert [row[1] for row in rows_of(stream)] == [i for i in ALL if i != 50]
        (failure,) = stream.report()["failures"]
        assert (failure["kind"], failure["sample_id"]) == ("poison", 50)
        assert "Numbers[50]" in failure["path"]
        assert "guest" in failure["reason"]
        stream.close()


def test_when_all_guests_have_gone_new_ones_go_on(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    old = guests.start("--delay-us", 2000, number=2)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew), items=(ALL, None), slots=3)
        wait_for(lambda: sum(g["completed"] for g in guests.status()["guests"]) > 20)
        for process in old:
            process.kill()
        wait_for(lambda: guests.status()["guests"] == [], 10)
        guests.start(number=2)
        assert [row[1] for row in rows_of(stream)] == ALL
        stream.close()


@pytest.mark.parametrize("policy", ["fail", "refill", "placeholder"])
def test_an_item_that_fails_is_reported_with_its_text(daemons, crews, policy):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--fail", 50, number=2)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew, errors={"policy": policy}), items=(ALL, None))
        if policy == "fail":
            with pytest.raises(Error) as caught:
                rows_of(stream)
            assert caught.value.kind == "raised" and "Numbers[50]" in caught.value.path
        else:
            delivered = [row[1] for row in rows_of(stream)]
            assert 50 not in delivered
            assert len(delivered) == (COUNT if policy == "refill" else COUNT - 1)
        (failure,) = stream.report()["failures"]
        assert (failure["kind"], failure["sample_id"]) == ("raised", 50)
        assert failure["reason"] == "Traceback (most recent call last):\n  line 1\nValueError: item 50 \u00e4"
        assert guests.status()["lost"] == 0
        stream.close()


def test_an_item_that_takes_too_long_fails_and_its_guest_is_killed(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    processes = guests.start("--stick", 50, number=2)
    errors = {"policy": "placeholder", "timeout_s": 0.5}
    began = time.monotonic()
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew, errors=errors), items=(ALL, None))
        assert [row[1] for row in rows_of(stream)] == [i for i in ALL if i != 50]
        (failure,) = stream.report()["failures"]
        stream.close()
    assert (failure["kind"], failure["sample_id"]) == ("timeout", 50)
    assert "0.5 s" in failure["reason"]
    assert 0.5 <= time.monotonic() - began < 20
    wait_for(lambda: sorted(p.poll() == -signal.SIGKILL for p in processes) == [False, True], 10)


def test_without_a_limit_an_item_may_take_as_long_as_it_wants(daemons, crews):
    daemon = daemons.start(env={"SPEEDYLOADER_TEST_JOB_LIMIT_S": 1})
    guests = crews(daemon, workers=1)
    guests.start("--delay-us", 3_000_000)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(1, guests.crew), items=([0], None))
        assert [row[1] for row in rows_of(stream)] == [0]
        stream.close()


def test_another_user_cannot_join_a_crew(daemons, crews, as_nobody):
    daemon = daemons.start()
    os.chmod(daemon.socket, 0o777)
    guests = crews(daemon)
    guests.start()
    (stranger,) = guests.start(wrap=as_nobody, attach=False)
    out, err = stranger.communicate(timeout=10)
    assert out == "SL_E_DENIED\n" and "another user" in err
    assert len(guests.status()["guests"]) == 1
    taken = crews(daemon)
    taken.crew = guests.crew
    own = crews(daemon)
    own.start(wrap=as_nobody)
    with Client(daemon.socket) as client, pytest.raises(Error) as caught:
        client.open(item_spec(1, own.crew), items=([0], None))
    assert caught.value.code == "SL_E_DENIED"


def test_a_crew_goes_with_its_client(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--delay-us", 1000, number=2)
    idle = daemon.status()["memory"]["reserved"]
    child = os.fork()
    if child == 0:
        client = Client(daemon.socket)
        stream = client.open(item_spec(COUNT, guests.crew), items=(ALL, None), slots=2)
        stream.next()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert guests.ends() == ["SL_E_DISCONNECTED"] * 2
    wait_for(lambda: guests.status() is None, 10)
    wait_for(lambda: daemon.status()["memory"]["reserved"] == idle, 10, "the stream's memory")


@pytest.mark.parametrize("busy", [False, True])
def test_guests_notice_the_daemons_end(daemons, crews, busy):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start("--delay-us", 1000, number=2)
    client = Client(daemon.socket, reconnect_ms=NO_RECONNECT)
    stream = client.open(item_spec(COUNT, guests.crew), items=(ALL, None), slots=2) if busy else None
    daemon.kill()
    assert guests.ends() == ["SL_E_DISCONNECTED"] * 2
    if stream is not None:
        with pytest.raises(Error) as caught:
            while True:
                stream.next()
        assert caught.value.code == "SL_E_DISCONNECTED"
    client.disconnect()


def test_a_stream_of_items_goes_on_with_the_next_daemon_and_guests_that_attach_there(daemons, crews):
    daemon = daemons.start()
    guests = crews(daemon)
    guests.start(number=2)
    order = shuffled(COUNT)
    with Client(daemon.socket) as client:
        stream = client.open(item_spec(COUNT, guests.crew), items=(order, [1.0] * COUNT), slots=2)
        held = [stream.next()[1] for _ in range(2)]
        before = [batch.raw("x") for batch in held]
        daemon.kill()
        assert guests.ends() == ["SL_E_DISCONNECTED"] * 2
        guests.processes.clear()
        daemon.start()
        guests.start(number=2)
        assert [row[:2] for row in rows_of(stream)] == list(enumerate(order))[32:]
        assert [batch.raw("x") for batch in held] == before
        assert stream.stats().reconnects == 1
        for batch in held:
            batch.release()
        stream.close()


def test_a_guest_keeps_no_private_daemon_from_leaving(daemons, crews):
    daemon = daemons.start("--private")
    guests = crews(daemon)
    guests.start(number=2)
    daemon.process.wait(timeout=20)
    assert guests.ends() == ["SL_E_DISCONNECTED"] * 2


def test_crews_and_their_guests_are_bounded(daemons, crews):
    daemon = daemons.start()
    many = crews(daemon, workers=300)
    many.start(attach=False)
    out, err = many.processes[0].communicate(timeout=10)
    assert out == "SL_E_INVALID_ARGUMENT\n" and "256" in err
    assert daemon.status()["crews"] == []
