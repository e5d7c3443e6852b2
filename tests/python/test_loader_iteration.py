"""`sl.Loader` as Python iterates it: epochs, iterators, time-outs, and after close()."""

import io
import itertools
import os
import pickle
import signal

import pytest
import speedyloader as sl
from loaders import COUNT, TINY, WAIT_S, content, ids
from support.daemon import wait_for

# ---- iteration ----


def test_each_iteration_is_the_next_epoch_and_len_is_known_before_the_first_batch(make):
    loader = make(batch_size=16, last="keep", epochs=2)
    assert len(loader) == 3
    epochs = [content(loader) for _ in range(2)]
    assert [(epoch, index) for taken in epochs for epoch, index, *_ in taken] == [
        (epoch, index) for epoch in range(2) for index in range(3)]
    orders = [[i for _, _, members, _ in taken for i in members] for taken in epochs]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(COUNT)) and orders[0] != orders[1]


def test_after_the_last_epoch_of_the_spec_comes_StreamEnded(make):
    loader = make(epochs=1)
    assert len(list(loader)) == 5
    with pytest.raises(sl.StreamEnded, match="all 1 epochs"):
        next(iter(loader))
    loader.reset()
    assert len(list(loader)) == 5


def test_by_default_there_are_as_many_epochs_as_you_iterate_over(make):
    loader = make(batch_size=COUNT)
    for epoch in range(7):
        assert [batch.epoch for batch in loader] == [epoch]


def test_an_epoch_that_was_left_is_not_continued_and_its_iterator_is_over(make):
    loader = make()
    left = iter(loader)
    assert next(left).epoch == 0
    assert [batch.epoch for batch in loader] == [1] * 5
    with pytest.raises(sl.Error, match="this iteration is over"):
        next(left)


def test_a_finished_iterator_stays_finished(make):
    iterator = iter(make())
    assert len(list(iterator)) == 5
    assert next(iterator, None) is None
    assert next(iterator, None) is None


def test_zip_and_islice_lose_no_batch_at_the_end_of_an_epoch(make):
    """islice asks for no more than it gives, so the stream's word of the epoch's end is still to come."""
    loader = make(epochs=3)
    assert [batch.index for batch in itertools.islice(loader, 5)] == [0, 1, 2, 3, 4]
    assert [(batch.epoch, batch.index) for batch in loader] == [(1, index) for index in range(5)]


def test_tqdm_knows_the_total(make):
    tqdm = pytest.importorskip("tqdm")
    shown = io.StringIO()
    bar = tqdm.tqdm(make(), file=shown, mininterval=0)
    assert bar.total == 5
    for _ in bar:
        pass
    assert "5/5" in shown.getvalue() and "100%" in shown.getvalue()


def test_a_pickled_loader_opens_a_stream_of_its_own(make):
    loader = make(seed=8)
    taken = [next(iter(loader))]
    other = pickle.loads(pickle.dumps(loader))
    assert content([next(iter(other))]) == content(taken)
    assert other.spec == loader.spec
    other.close()
    assert len(list(loader)) == 5


# ---- time-outs and the end ----


def test_a_timeout_is_WaitTimeout_and_the_next_call_goes_on_waiting(daemons, folder):
    daemon = daemons.start(workers=1)
    (worker,) = daemon.worker_pids()
    os.kill(worker, signal.SIGSTOP)
    try:
        loader = sl.Loader(folder, TINY, batch_size=8, timeout=0.05, epochs=1, socket=daemon.socket)
        batches = iter(loader)
        with pytest.raises(sl.WaitTimeout, match="0.05 s") as late:
            next(batches)
        assert isinstance(late.value, TimeoutError)
    finally:
        os.kill(worker, signal.SIGCONT)

    def take():
        try:
            return next(batches, "end")
        except sl.WaitTimeout:
            return None

    taken = [wait_for(take, WAIT_S) for _ in range(6)]
    assert taken.pop() == "end"
    assert sorted(i for batch in taken for i in ids(batch)) == list(range(COUNT))
    del batches, taken
    loader.close()


def test_timeout_0_only_looks(make):
    loader = make(timeout=0, batch_size=COUNT)
    batches = iter(loader)

    def take():
        try:
            return next(batches)
        except sl.WaitTimeout:
            return None

    assert wait_for(take, WAIT_S).count == COUNT


def test_a_closed_loader_says_so_and_its_batches_stay(make):
    with make() as loader:
        batches = iter(loader)
        batch = next(batches)
        before = content([batch])
    loader.close()  # again does no harm
    calls = (loader.stats, loader.report, loader.state_dict, lambda: next(batches), lambda: loader.classes)
    for call in calls:
        with pytest.raises(sl.ClosedError, match="the loader is closed") as closed:
            call()
        assert isinstance(closed.value, RuntimeError) and not isinstance(closed.value, ValueError)
    assert content([batch]) == before
    assert len(loader) == 5 and loader.spec["batch"]["size"] == 8


def test_a_closed_loader_is_not_opened_again_by_going_somewhere(make):
    loader = make()
    next(iter(loader))
    state = loader.state_dict()
    loader.close()
    for call in (loader.reset, lambda: loader.load_state_dict(state), lambda: iter(loader)):
        with pytest.raises(sl.ClosedError, match="closed"):
            call()
