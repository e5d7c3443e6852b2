"""Loaders outlive their daemons: epochs go on at the batch that is due, held batches stay, and patience ends."""

import logging
import os
import signal
import threading

import pytest
import speedyloader as sl
from guest_items import Squares
from guest_loaders import opened
from loaders import TINY, content, ids, open_in_order
from support.daemon import MARK, marked, wait_for


def daemons_here():
    """Those that this process has started, by pid."""
    return [pid for pid, name in marked(os.environ[MARK]).items() if name == "speedyloaderd"]


def replace(daemon):
    daemon.kill()
    daemon.start()


def test_an_epoch_goes_on_with_the_next_daemon_and_is_the_same(daemon, id_set, caplog):
    folder = id_set(600)
    options = {"shuffle": True, "epochs": 3, "slots": 4}
    with open_in_order(daemon, folder, **options) as loader:
        expected = [content(loader) for _ in range(3)]
    with caplog.at_level(logging.WARNING, "speedyloader"), open_in_order(daemon, folder, **options) as loader:
        iterator = iter(loader)
        held = [next(iterator), next(iterator)]
        before = content(held)
        replace(daemon)
        seen = before + content(iterator)
        assert seen == expected[0]
        assert content(held) == before
        assert loader.stats()["reconnects"] == 1
        assert loader.stats()["held"] == 0  # of the ring that there is now
        assert content(loader) == expected[1]
        daemon.kill()
        threading.Timer(0.5, daemon.start).start()
        assert content(loader) == expected[2]
        with pytest.raises(sl.StreamEnded):
            next(iter(loader))
        assert content(held) == before
    assert [record.message for record in caplog.records if "goes on with another one" in record.message]


def test_patience_ends_and_the_iterator_looks_again_when_it_is_asked(daemon, id_set):
    with open_in_order(daemon, id_set(600), slots=2, reconnect=0.3) as loader:
        iterator = iter(loader)
        seen = ids(next(iterator))
        daemon.kill()
        for _ in range(2):
            with pytest.raises(sl.DisconnectedError, match="there is no other"):
                while True:  # what was ready before the kill still comes
                    seen += ids(next(iterator))
        assert loader.state_dict()["batch"] == len(seen) // 8
        daemon.start()
        for batch in iterator:
            seen += ids(batch)
        assert seen == list(range(600))


def test_going_to_a_position_finds_the_next_daemon(daemon, id_set):
    options = {"shuffle": True, "epochs": 3, "slots": 4}
    with open_in_order(daemon, id_set(600), **options) as loader:
        expected = [content(loader) for _ in range(3)]
    with open_in_order(daemon, id_set(600), **options) as loader:
        next(iter(loader))  # and leaves the epoch
        state = loader.state_dict()
        for go, then in [(lambda: None, expected[1]), (lambda: loader.reset(2), expected[2]),
                         (lambda: loader.load_state_dict(state), expected[0][1:])]:
            daemon.kill()
            timer = threading.Timer(0.5, daemon.start)
            timer.start()
            go()
            assert content(loader) == then
            timer.join()


def test_without_patience_a_position_that_was_not_reached_changes_nothing(daemon, id_set):
    with open_in_order(daemon, id_set(600), slots=4, reconnect=False) as loader:
        iterator = iter(loader)
        seen = ids(next(iterator))
        daemon.kill()
        with pytest.raises((sl.NoDaemonError, sl.DisconnectedError)):
            loader.reset(1)
        with pytest.raises((sl.NoDaemonError, sl.DisconnectedError)):
            loader.stats()
        daemon.start()
        assert loader.state_dict()["batch"] == 1
        loader.load_state_dict(loader.state_dict())
        for batch in loader:
            seen += ids(batch)
        assert seen == list(range(600))


def test_what_is_held_of_the_old_ring_takes_no_slot_of_the_new_one(daemon, id_set):
    with open_in_order(daemon, id_set(200), slots=4, ring_full="error") as loader:
        iterator = iter(loader)
        held = [next(iterator) for _ in range(4)]
        replace(daemon)
        seen = [ids(batch) for batch in iterator]
        assert [ids(batch) for batch in held] + seen == [list(range(at, at + 8)) for at in range(0, 200, 8)]
        assert loader.stats()["copied"] == 0


def test_a_signals_handler_that_raises_ends_the_search(daemon, id_set):
    class Enough(Exception):
        pass

    def handler(*_):
        raise Enough

    with open_in_order(daemon, id_set(200), slots=2, reconnect=float("inf")) as loader:
        iterator = iter(loader)
        next(iterator)
        daemon.kill()
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Enough):
            list(iterator)
        signal.signal(signal.SIGALRM, before)
        daemon.start()
        assert ids(list(iterator)[-1]) == list(range(192, 200))


@pytest.mark.usefixtures("private_name")
def test_a_private_daemon_is_started_again(id_set):
    with sl.Loader(id_set(600), TINY, batch_size=8, last="keep", shuffle=False, dtype="uint8", slots=2) as loader:
        iterator = iter(loader)
        seen = ids(next(iterator))
        (first,) = daemons_here()
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: first not in daemons_here())
        for batch in iterator:
            seen += ids(batch)
        assert seen == list(range(600))


@pytest.mark.parametrize("wrong", [-1, float("nan"), "soon"])
def test_a_patience_that_means_nothing_is_a_SpecError(daemon, id_set, wrong):
    with pytest.raises(sl.SpecError, match="reconnect is"):
        open_in_order(daemon, id_set(40), reconnect=wrong)


# ---- guest workers ----


def flat(batch):
    first = batch[0] if isinstance(batch, (list, tuple)) else batch
    return first.flatten().tolist()


@pytest.mark.parametrize("order", ["strict", "ready"])
def test_guests_go_on_with_the_next_daemon(daemon, order):
    with opened(daemon, Squares(400), batch_size=4, order=order) as loader:
        expected = sorted(item for batch in loader for item in flat(batch))
        iterator = iter(loader)
        seen = [next(iterator) for _ in range(5)]
        replace(daemon)
        seen += list(iterator)
        assert sorted(item for batch in seen for item in flat(batch)) == expected
        if order == "strict":
            assert [item for batch in seen for item in flat(batch)] == expected


def test_without_another_daemon_the_loop_over_guests_ends_and_may_go_on_later(daemon):
    with opened(daemon, Squares(400), batch_size=4, reconnect=0.3) as loader:
        iterator = iter(loader)
        seen = [next(iterator)]
        daemon.kill()
        with pytest.raises(sl.DisconnectedError):
            while True:
                seen.append(next(iterator))
        daemon.start()
        seen += list(iterator)
        assert len(seen) == 100
