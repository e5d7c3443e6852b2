"""The guests of a loader as processes: they begin, are asked for an item, die and are begun again, and end."""

import contextlib
import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import pytest
from support.daemon import wait_for

torch = pytest.importorskip("torch")

from guest_items import Misbehaving, Squares, dies, fails  # noqa: E402
from speedyloader.torch import crew, guest, rows  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
FORKS = ["fork", "forkserver"]  # where spawn is no other case; it takes seconds
METHODS = [*FORKS, "spawn"]
ROWS = guest.Rows(0, 0, 0)


@contextlib.contextmanager
def guests(dataset, workers=2, method="fork", init=None):
    setup = guest.Setup(dataset, init, workers, 1, None, 0, True, os.getpid())
    made = crew.Crew(setup, crew.find_context(method))
    try:
        yield made
    finally:
        made.close()


def pids(made):
    return [member.process.pid for member in made._members]


def alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_an_item_that_is_asked_for_is_told_by_what_it_is():
    with guests(Squares()) as made:
        probed = made.ask(ROWS, 3, 0)
        assert probed.structure == rows.describe(Squares()[3]) and probed.needed > 0
        assert made.ask(ROWS, 4, 60).needed == probed.needed


def test_an_item_that_raises_is_told_with_the_users_traceback():
    with guests(Misbehaving("raises")) as made:
        text = made.ask(ROWS, 7, 0).raised
        assert text.startswith("builtins:LookupError\n") and "in __getitem__" in text and "guest.py" not in text


@pytest.mark.parametrize(("what", "told"), [
    ("exits", r"DataLoader worker \(pid \d+\) exited unexpectedly with status 3"),
    ("dies", r"DataLoader worker \(pid \d+\) is killed by signal: Killed"),
    ("waits", "DataLoader timed out after 0.5 seconds")])
def test_a_guest_that_does_not_answer_is_told_and_another_one_answers_the_next_time(what, told):
    with guests(Misbehaving(what)) as made:
        assert re.search(told, made.ask(ROWS, 7, 0.5 if what == "waits" else 0).died)
        assert made.ask(ROWS, 8, 0).structure is not None
        assert len(made.lost) == 1 and made.lost[0]["guest"] == 0


def test_a_guest_that_dies_idle_is_begun_again():
    with guests(Squares()) as made:
        made.ask(ROWS, 3, 0)
        wait_for(lambda: all(member.ready.is_set() for member in made._members))
        before = pids(made)
        os.kill(before[1], signal.SIGKILL)
        wait_for(lambda: len(pids(made)) == 2 and pids(made)[1] != before[1])
        assert made.lost == [{"guest": 1, "pid": before[1], "exit_status": -9}]
        assert pids(made)[0] == before[0]


@pytest.mark.parametrize("method", FORKS)
@pytest.mark.parametrize(("init", "kind", "told"), [
    (fails, OSError, "does not want to"), (dies, RuntimeError, "status 9")], ids=["fails", "dies"])
def test_guests_that_cannot_begin_are_a_failure_and_not_begun_again(method, init, kind, told):
    with guests(Squares(), method=method, init=init) as made:
        heard = threading.Event()
        made.listener = lambda: lambda what: heard.set()
        wait_for(lambda: made.failure is not None)
        assert type(made.failure) is kind and told in str(made.failure)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_of_guests_that_have_been_ended(method):
    with guests(Squares(), 1, method) as first:  # makes what Python keeps: a fork server, a tracker
        first.ask(ROWS, 3, 0)
    gc.collect()  # what tests before have left
    descriptors = set(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    with guests(Misbehaving("waits"), 2, method) as made:
        made.ask(ROWS, 3, 0)
        mine = pids(made)
    assert not any(map(alive, mine))
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in mine if method != "forkserver")
    assert len(set(os.listdir("/proc/self/fd"))) == len(descriptors)
    assert threading.active_count() == threads


def test_a_guest_in_the_middle_of_an_item_ends_too():
    with guests(Misbehaving("waits")) as made:
        asking = threading.Thread(target=made.ask, args=(ROWS, 7, 0), daemon=True)
        asking.start()
        wait_for(lambda: made._asked and all(member.ready.is_set() for member in made._members))
        mine = pids(made)
    assert not any(map(alive, mine))


def test_guests_end_when_their_client_is_killed_of_which_they_are_no_children(tmp_path):
    program = f"""if True:
        import multiprocessing, sys
        sys.path[:0] = {sys.path!r}
        multiprocessing.set_forkserver_preload(["speedyloader.torch"])
        if __name__ == "__main__":
            from test_guest_crew import *
            with guests(Misbehaving("waits"), 2, "forkserver") as made:
                made.ask(ROWS, 3, 0)
                print(*pids(made), flush=True)
                made.ask(ROWS, 7, 0)
        """
    script = tmp_path / "client.py"
    script.write_text(program)
    client = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    mine = [int(word) for word in client.stdout.readline().split()]
    assert len(mine) == 2 and all(map(alive, mine))
    client.kill()
    client.wait()
    client.stdout.close()
    wait_for(lambda: not any(map(alive, mine)))


def test_a_forked_child_ends_nobodys_guests():
    with guests(Squares()) as made:
        made.ask(ROWS, 3, 0)
        child = os.fork()
        if child == 0:
            made.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert made.ask(ROWS, 3, 0).structure is not None and not made.lost
