"""Client programs end at once, however they end, with a status and words of their own (LDR-07); daemons too.

The programs are exit_scripts/*.py. Each prints the time of its last act; what the end took is printed.
"""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
import speedyloader as sl
from stalls import Background, id_loader, ids, stopped_workers, wait_until_in_next
from support.capi import NO_RECONNECT, Client, Error
from support.daemon import MARK, PROGRAMS, PYTHON_PACKAGES, clean_environment, marked, wait_for

SCRIPTS = pathlib.Path(__file__).with_name("exit_scripts")
SECONDS = 5  # that an end may take on a busy machine; alone it is a tenth of one
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


class Script:
    """A running exit script."""

    def __init__(self, name, folder, *arguments, **environment):
        path = os.pathsep.join([str(PYTHON_PACKAGES), *filter(None, sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, SCRIPTS / name, folder, *arguments], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=clean_environment(PYTHONPATH=path, PYTHONUNBUFFERED=1, **environment))

    def wait_until_in_next(self):
        """For a script that prints the thread that goes to wait for a batch."""
        wait_until_in_next(self.process.pid, int(self.process.stdout.readline()))

    def end(self, last_act=None, message=""):
        """(status, stdout, stderr), once it has ended within SECONDS of its last act."""
        try:
            out, err = self.process.communicate(message, timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail(f"it does not end: {self.process.communicate()}")
        ended = time.monotonic()
        assert last_act or out, err
        seconds = ended - (last_act or float(out.split()[0]))
        print(f"ended after {seconds:.3f} s")
        assert seconds < SECONDS
        return self.process.returncode, out, err

    def is_known_to(self, daemon):
        return any(session["pid"] == self.process.pid for session in daemon.status()["sessions"])


@pytest.fixture
def run(shared_daemon, id_set):
    """Runs a script to its end against the shared daemon, which then has nothing of it any more."""

    def run_script(name, *arguments):
        script = Script(name, id_set(60), *arguments, SPEEDYLOADER_SOCKET=shared_daemon.socket)
        ended = script.end()
        wait_for(lambda: not script.is_known_to(shared_daemon), 5, shared_daemon.status)
        return ended

    return run_script


@pytest.mark.parametrize("script", [
    "never_iterated.py", "mid_epoch.py", "held.py", "held.py closed", "cycle.py",
    pytest.param("held_by_torch.py", marks=needs_torch)])
def test_LDR_07_a_program_ends_at_once_with_status_0_and_without_a_word(run, script):
    status, _, err = run(*script.split())
    assert (status, err) == (0, "")


def test_LDR_07_an_exception_in_the_loop_gives_status_1_and_its_own_traceback_only(run):
    status, _, err = run("exception.py")
    assert status == 1
    assert err.startswith("Traceback (most recent call last):\n") and err.count("Traceback") == 1
    assert err.endswith("\nZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("script, expected", [("sys_exit.py", 7), ("os_exit.py", 3)])
def test_LDR_07_the_exit_status_is_the_scripts_own(run, script, expected):
    status, _, err = run(script)
    assert (status, err) == (expected, "")


def test_LDR_07_a_handler_at_exit_may_still_use_the_loader(run):
    status, out, err = run("at_exit.py")
    assert (status, err) == (0, "")
    assert out.split()[1:] == ["1", "2"]  # the second batch, and the position after it


def test_LDR_07_ctrl_c_in_a_wait_ends_the_program(daemon, id_set):
    with stopped_workers(daemon):
        script = Script("interrupted.py", id_set(60), SPEEDYLOADER_SOCKET=daemon.socket)
        script.wait_until_in_next()
        sent = time.monotonic()
        script.process.send_signal(signal.SIGINT)
        status, _, err = script.end(sent)
    assert status == -signal.SIGINT
    assert err.count("Traceback") == 1 and err.endswith("\nKeyboardInterrupt\n")


def test_LDR_07_a_thread_that_waits_for_a_batch_does_not_disturb_the_end(daemon, id_set):
    with stopped_workers(daemon):
        script = Script("thread_waits.py", id_set(60), SPEEDYLOADER_SOCKET=daemon.socket)
        script.wait_until_in_next()
        status, _, err = script.end(message="end\n")
    assert (status, err) == (0, "")


def test_LDR_07_threads_that_take_batches_do_not_disturb_the_end(run):
    for _ in range(5):
        status, _, err = run("threads_iterate.py")
        assert (status, err) == (0, "")


def test_LDR_07_the_private_daemon_leaves_after_the_scripts(private_name, id_set):
    environment = {"SPEEDYLOADER_PRIVATE_NAME": private_name,
                   "SPEEDYLOADER_DAEMON": PROGRAMS / "speedyloaderd", MARK: f"{private_name}-scripts"}
    for script, expected in (("mid_epoch.py", 0), ("held.py", 0), ("os_exit.py", 3)):
        status, _, err = Script(script, id_set(60), **environment).end()
        assert (status, err) == (expected, "")
    wait_for(lambda: not marked(environment[MARK]), 5, lambda: marked(environment[MARK]))


# ---- the daemon ends first ----


def c_client(socket, spec, waiting):
    """Holds the only slot and waits for another batch; the error that ends the wait."""
    with Client(socket, reconnect_ms=NO_RECONNECT) as client:
        stream = client.open(spec, slots=1)
        _, held = stream.next()
        before = held.ids()
        waiting.release()
        with pytest.raises(Error) as raised:
            stream.next()
        assert held.ids() == before
        held.release()
        stream.close()
    return raised.value.code


def python_client(socket, folder, waiting):
    """Takes batches for ever; the error that ends that."""
    loader = id_loader(socket, folder, reconnect=False)
    iterator = iter(loader)
    kept = next(iterator)
    before = ids(kept)
    waiting.release()
    with pytest.raises(sl.Error) as raised:
        while True:
            for _ in iterator:
                pass
            iterator = iter(loader)
    assert ids(kept) == before
    return type(raised.value)


def test_LDR_07_a_daemon_with_100_clients_ends_within_5_s_and_each_is_told(daemon, id_set):
    socket, folder = daemon.socket, id_set(60)
    spec = id_loader(socket, folder).spec
    waiting = threading.Semaphore(0)
    clients = [Background(lambda: c_client(socket, spec, waiting)) for _ in range(90)]
    clients += [Background(lambda: python_client(socket, folder, waiting)) for _ in range(10)]
    for _ in clients:
        assert waiting.acquire(timeout=60), [client.error for client in clients]
    began = time.monotonic()
    assert daemon.stop(seconds=SECONDS) == 0
    print(f"ended after {time.monotonic() - began:.3f} s")
    assert [client.join().error for client in clients] == [None] * 100
    assert [client.result for client in clients] == ["SL_E_DISCONNECTED"] * 90 + [sl.DisconnectedError] * 10


def test_a_killed_daemon_is_an_error_and_the_rest_of_the_epoch_comes_from_a_new_one(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(600), shuffle=True, slots=4, reconnect=False)
    iterator = iter(loader)
    held = [next(iterator) for _ in range(2)]
    seen = [ids(batch) for batch in held]
    daemon.kill()
    with pytest.raises(sl.DisconnectedError, match="connection"):
        while True:  # what was ready before the kill still comes
            seen.append(ids(next(iterator)))
    with pytest.raises(sl.DisconnectedError):
        next(iterator)
    assert [ids(batch) for batch in held] == seen[:2]
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (0, len(seen))
    assert len(loader) == 150 and loader.stats()["held"] == 2
    loader.close()

    daemon.start()
    planned = [ids(batch) for batch in id_loader(daemon.socket, id_set(600), shuffle=True)]
    new = id_loader(daemon.socket, id_set(600), shuffle=True)
    new.load_state_dict(state)
    rest = [ids(batch) for batch in new]
    assert seen + rest == planned and len(rest) == 150 - len(seen) > 0
    assert [ids(batch) for batch in held] == seen[:2]
