"""Threads: they share an iterator, look at a loader that another one waits on, close it, and keep running."""

import gc
import os
import signal
import sys
import threading
import time

import pytest
import speedyloader as sl
from stalls import Background, id_loader, ids, stopped_workers
from support.daemon import wait_for


class Counting:
    """A thread that counts whenever it may run Python; a context manager."""

    def __init__(self):
        self.count = 0
        self._ended = threading.Event()

    def _run(self):
        while not self._ended.is_set():
            self.count += 1
            time.sleep(0)  # the GIL is anybody's

    def __enter__(self):
        self._thread = Background(self._run)
        wait_for(lambda: self.count > 0)
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()


@pytest.fixture
def unasked():
    """Nobody has to give up the GIL because another thread asks for it: only who lets go of it shares it."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(usual)


# ---- one iterator, many threads ----


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_that_share_an_iterator_get_each_batch_of_the_epoch_exactly_once(daemons, id_set, threads):
    daemon = daemons.start(env={"SPEEDYLOADER_TEST_DELAY_US": 1000})  # so that they wait in turn, too
    loader = id_loader(daemon.socket, id_set(60))
    for epoch in range(10):
        iterator = iter(loader)
        taken = []

        def take():
            for batch in iterator:
                taken.append((batch.epoch, ids(batch)))

        for thread in [Background(take) for _ in range(threads)]:
            assert thread.join().error is None
        assert sorted(taken) == [(epoch, list(range(first, first + 4))) for first in range(0, 60, 4)]
        with pytest.raises(StopIteration):
            next(iterator)


def test_a_loader_may_be_iterated_on_another_thread_than_the_one_that_made_it(daemon, id_set):
    loader = Background(lambda: id_loader(daemon.socket, id_set(60))).join().result
    for epoch in range(3):
        batches = Background(lambda: [(batch.epoch, *ids(batch)) for batch in loader]).join().result
        assert batches == [(epoch, *range(first, first + 4)) for first in range(0, 60, 4)]


# ---- while one thread waits ----


@pytest.fixture
def waiting(daemon, id_set):
    """(loader, its iterator, thread in next() of that, function that lets the stream go on)."""
    with stopped_workers(daemon) as let_go_on:
        loader = id_loader(daemon.socket, id_set(60))
        iterator = iter(loader)
        thread = Background(lambda: next(iterator))
        thread.wait_until_in_next()
        yield loader, iterator, thread, let_go_on
        let_go_on()
        thread.join()


def test_closing_from_another_thread_ends_a_wait_with_an_error(waiting):
    loader, _, thread, _ = waiting
    began = time.monotonic()
    loader.close()
    with pytest.raises(sl.ClosedError, match="closed by another thread"):
        raise thread.join(5).error
    assert time.monotonic() - began < 5  # alone it is a twentieth of one
    with pytest.raises(sl.ClosedError, match="closed"):
        next(iter(loader))


def test_a_waiting_loader_can_be_looked_at_from_other_threads(waiting):
    loader, _, thread, let_go_on = waiting
    for _ in range(10):
        asked = Background(lambda: (loader.stats(), loader.state_dict(), loader.report(), len(loader)))
        stats, state, report, _ = asked.join(10).result
        assert (stats["held"], state["batch"], report["samples"]) == (0, 0, 60)
    let_go_on()
    assert ids(thread.join().result) == [0, 1, 2, 3]


def test_two_threads_that_wait_both_get_a_batch(waiting):
    _, iterator, thread, let_go_on = waiting
    other = Background(lambda: next(iterator))
    other.wait_until_in_next()
    let_go_on()
    assert sorted(ids(waiter.join().result)[0] for waiter in (thread, other)) == [0, 4]


def test_other_threads_run_python_while_one_waits(daemon, id_set, unasked):
    with stopped_workers(daemon) as let_go_on:
        loader = id_loader(daemon.socket, id_set(60), timeout=0.2)
        with Counting() as counting:
            before = counting.count
            with pytest.raises(sl.WaitTimeout):
                next(iter(loader))
            assert counting.count > before
        let_go_on()


def big_batch(daemon, folder):
    """One of 50 MB, which takes milliseconds to copy."""
    loader = sl.Loader(folder, [sl.Resize((1024, 1024))], batch_size=4, socket=str(daemon.socket), slots=2)
    return next(iter(loader))


@pytest.mark.parametrize("copy", [
    lambda batch: batch.copy(), lambda batch: batch["image"].__dlpack__(copy=True)], ids=["batch", "dlpack"])
def test_other_threads_run_python_while_one_copies(daemon, id_set, unasked, copy):
    batch = big_batch(daemon, id_set(40))
    with Counting() as counting:
        deadline = time.monotonic() + 30
        before = after = counting.count
        while after == before and time.monotonic() < deadline:  # the other one needs a processor in that time
            before = counting.count
            copy(batch)
            after = counting.count
        assert after > before


@pytest.mark.parametrize("end", ["close", "del"])
def test_other_threads_run_python_while_a_loader_is_closed_though_the_daemon_does_not_answer(
        daemon, id_set, unasked, end):
    loader = id_loader(daemon.socket, id_set(60))
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        with Counting() as counting:
            before = counting.count
            if end == "close":
                loader.close()
            else:
                del loader
                gc.collect()
            assert counting.count > before + 10
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    wait_for(lambda: not daemon.status()["streams"])


def test_batches_may_be_let_go_of_by_any_thread_in_any_order(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(600), slots=8)
    kept, seen = [], []
    for batch in loader:
        kept.append(batch)
        seen += ids(batch)
        if len(kept) == 6:
            let_go = [kept.pop(place) for place in (4, 0, 2)]
            del batch
            Background(let_go.clear).join()
    assert seen == list(range(600))
    assert loader.stats()["held"] == len(kept) > 0 == loader.stats()["copied"]
    Background(kept.clear).join()
    assert loader.stats()["held"] == 0
