"""An epoch interrupted by Ctrl-C, by another signal, an exception or a `break` loses and repeats nothing."""

import itertools
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest
import speedyloader as sl
from stalls import Background, id_loader, ids, stopped_workers, wait_until_in_next
from support.daemon import wait_for

SECONDS = 5  # from a signal to its exception, on a busy machine; alone it is a twentieth of one
MAIN = os.getpid()


class Alarm(Exception):
    """What the tests' own handlers raise."""


CTRL_C = (signal.SIGINT, KeyboardInterrupt)


@pytest.fixture(params=[CTRL_C, (signal.SIGUSR1, Alarm)], ids=["ctrl-c", "own-handler"])
def interrupt(request):
    """(signal, the exception that its handler raises). While `armed` is clear the handler does nothing."""
    number, exception = request.param
    armed = threading.Event()

    def handler(*_):
        if armed.is_set():
            raise exception

    usual = signal.signal(number, handler)
    yield number, exception, armed
    armed.clear()
    signal.signal(number, usual)


def when_waiting(*acts):
    """A thread that acts once this process's first thread waits for a batch; its result is when that was."""

    def act():
        wait_until_in_next(MAIN)
        began = time.monotonic()
        for done in acts:
            done()
        return began

    return Background(act)


# ---- signals ----


def test_LDR_07_a_signal_in_a_wait_raises_at_once_and_the_epoch_goes_on_with_the_next_batch(
        daemon, id_set, interrupt):
    number, exception, armed = interrupt
    with stopped_workers(daemon) as let_go_on:
        loader = id_loader(daemon.socket, id_set(60))
        iterator = iter(loader)
        for _ in range(3):
            armed.set()
            sender = when_waiting(lambda: os.kill(MAIN, number))
            with pytest.raises(exception):
                next(iterator)
            armed.clear()
            assert time.monotonic() - sender.join().result < SECONDS
        assert (loader.state_dict()["batch"], loader.stats()["held"]) == (0, 0)
        let_go_on()
        assert [i for batch in iterator for i in ids(batch)] == list(range(60))


@pytest.mark.parametrize("copy", [False, True], ids=["leased", "copied"])
def test_a_batch_that_arrives_between_a_signal_and_its_exception_is_not_lost(daemon, id_set, interrupt, copy):
    number, exception, armed = interrupt
    loader = id_loader(daemon.socket, id_set(600), slots=2, copy=copy)
    iterator = iter(loader)
    seen = []

    def take():
        armed.set()
        for batch in iterator:
            armed.clear()  # from here to the next round an exception would be this loop's own loss
            seen.extend(ids(batch))
            armed.set()

    for _ in range(10):
        with stopped_workers(daemon) as let_go_on:
            sender = when_waiting(lambda: os.kill(MAIN, number), let_go_on)
            with pytest.raises(exception):
                take()
            armed.clear()
            sender.join()
        assert loader.state_dict()["batch"] == len(seen) / 4
        seen += ids(next(iterator))
        assert seen == list(range(len(seen)))
    resumed = id_loader(daemon.socket, id_set(600))
    resumed.load_state_dict(loader.state_dict())
    for rest in (iterator, resumed):
        assert seen + [i for batch in rest for i in ids(batch)] == list(range(600))


def test_signals_whose_handlers_return_are_handled_during_a_wait_that_goes_on(daemon, id_set):
    handled = []
    usual = signal.signal(signal.SIGUSR1, lambda *_: handled.append(True))

    def send_five():
        for count in range(1, 6):
            wait_until_in_next(MAIN)
            os.kill(MAIN, signal.SIGUSR1)
            wait_for(lambda: len(handled) == count, what="the handler runs")
        let_go_on()

    try:
        with stopped_workers(daemon) as let_go_on:
            loader = id_loader(daemon.socket, id_set(60))
            sender = Background(send_five)
            assert ids(next(iter(loader))) == [0, 1, 2, 3]
            assert sender.join().error is None
            assert len(handled) == 5
    finally:
        signal.signal(signal.SIGUSR1, usual)


# ---- a signal while a loader opens ----


def sessions(daemon):
    """Clients other than the one that asks."""
    return [session for session in daemon.status()["sessions"] if session["program"] != "status"]


def threads():
    return set(os.listdir("/proc/self/task"))


def interrupted_opening(socket, folder, number, exception, armed, is_under_way):
    """Opens a loader and interrupts that; what it took from the signal to the exception."""

    def send():
        wait_for(is_under_way, what="the opening begins")
        sent = time.monotonic()
        os.kill(MAIN, number)
        return sent

    armed.set()
    sender = Background(send)
    with pytest.raises(exception):
        id_loader(socket, folder)
    armed.clear()
    return time.monotonic() - sender.join().result


def test_a_signal_ends_the_opening_of_a_loader_whose_daemon_does_not_answer(daemon, id_set, interrupt):
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        before = threads()
        # Two more: one sends the signal, one opens.
        both = lambda: len(threads() - before) == 2  # noqa: E731
        took = interrupted_opening(daemon.socket, id_set(60), *interrupt, both)
        assert took < SECONDS
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    wait_for(lambda: not sessions(daemon), what="the connection of the interrupted one ends")
    assert sum(len(ids(batch)) for batch in id_loader(daemon.socket, id_set(60))) == 60


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("interrupt", [CTRL_C], ids=["ctrl-c"], indirect=True)
def test_a_signal_ends_the_opening_of_a_folder_whose_scan_takes_long(daemons, id_set, interrupt):
    slow = ["strace", "--follow-forks", "--seccomp-bpf", "--output=/dev/null", f"--trace-path={id_set(60)}",
            "--trace=getdents64", "--inject=getdents64:delay_enter=4s:when=1"]
    if subprocess.run([*slow, "true"], capture_output=True, timeout=60).returncode != 0:
        pytest.skip("strace may not trace here")
    daemon = daemons.start(wrap=slow)
    interrupted_opening(daemon.socket, id_set(60), *interrupt, lambda: sessions(daemon))
    assert sessions(daemon)  # the scan went on, and ends for nobody
    wait_for(lambda: not sessions(daemon), what="the connection of the interrupted one ends")
    assert sum(len(ids(batch)) for batch in id_loader(daemon.socket, id_set(600))) == 600


# ---- exceptions and breaks ----


def test_an_exception_in_the_training_loop_closes_the_loader_and_a_new_one_opens_at_once(daemon, id_set):
    with pytest.raises(ZeroDivisionError):
        with id_loader(daemon.socket, id_set(600)) as loader:
            for batch in loader:
                batch.count / 0
    with pytest.raises(sl.Error, match="closed"):
        loader.stats()
    assert ids(batch) == [0, 1, 2, 3]  # a batch in hand outlives its loader
    assert daemon.status()["streams"] == []
    with id_loader(daemon.socket, id_set(600)) as again:
        assert sum(batch.count for batch in again) == 600


def test_a_broken_off_epoch_is_followed_by_the_next_one(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(60))
    for epoch in range(5):
        for number, batch in enumerate(loader):
            assert (batch.epoch, batch.index, ids(batch)[0]) == (epoch, number, 4 * number)
            if number == epoch:
                break
    assert [(batch.epoch, batch.index) for batch in loader] == [(5, number) for number in range(15)]


@pytest.mark.parametrize("after", [14, 15], ids=["before-the-last-batch", "at-the-last-batch"])
def test_a_break_near_the_end_of_an_epoch_is_followed_by_the_whole_next_one(daemon, id_set, after):
    loader = id_loader(daemon.socket, id_set(60))
    for epoch in range(3):
        assert [batch.index for batch in itertools.islice(loader, after)] == list(range(after))
        assert loader.state_dict()["epoch"] == (epoch if after == 14 else epoch + 1)
    assert [(batch.epoch, batch.index) for batch in loader] == [(3, number) for number in range(15)]


def test_an_iterator_that_is_over_stays_over(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(60))
    finished = iter(loader)
    assert len(list(finished)) == 15
    stale = iter(loader)
    assert next(stale).epoch == 1
    current = iter(loader)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(finished)
        with pytest.raises(sl.Error, match="this iteration is over"):
            next(stale)
    assert [batch.epoch for batch in current] == [2] * 15


def test_reset_goes_to_the_first_batch_of_any_epoch_from_anywhere(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(60), shuffle=True)
    epochs = [[ids(batch) for batch in loader] for _ in range(3)]
    next(iter(loader))
    for epoch in (1, 0, 2):
        loader.reset(epoch)
        iterator = iter(loader)
        assert [ids(batch) for batch in itertools.islice(iterator, 4)] == epochs[epoch][:4]
        loader.reset(epoch)
        with pytest.raises(sl.Error, match="this iteration is over"):
            next(iterator)
        assert [ids(batch) for batch in loader] == epochs[epoch]
    loader.reset()
    assert [[ids(batch) for batch in loader] for _ in range(3)] == epochs


def test_a_closed_loader_stays_closed_and_may_be_closed_again(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(60))
    iterator = iter(loader)
    next(iterator)
    loader.close()
    loader.close()
    for use in (lambda: next(iterator), loader.stats, loader.state_dict, loader.report):
        with pytest.raises(sl.Error, match="closed"):
            use()
    assert len(loader) == 15
