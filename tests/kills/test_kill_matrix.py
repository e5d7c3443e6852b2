"""The kill matrix: at each fault point of shm/fault_points.h the process that reaches it is killed, or stopped.

Afterwards every sample has been delivered exactly once, with the bytes that an undisturbed run has; a second client
beside it too; and the daemon has the descriptors, the memory and the input buffer that it had without clients. The
`daemons` fixture adds that no process, no file and nothing in /dev/shm is left.
"""

import collections
import contextlib
import json
import pathlib
import re
import signal as signals
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "guests")]

from item_guests import WORDS, Guests, item_spec  # noqa: E402
from runners import Runner  # noqa: E402
from support.capi import BUILD, Client  # noqa: E402
from support.daemon import Daemon, Daemons, wait_for  # noqa: E402
from support.specs import id_spec  # noqa: E402

LIST = (HERE.parents[1] / "shm" / "fault_points.h").read_text()
POINTS = {name: int(time) for name, time in re.findall(r"X\((\w+), (\d+), \"", LIST)}
COUNT, BATCH, EPOCHS = 160, 16, 2
ITEMS = 120

if "SL_TEST_HOOKS:BOOL=ON" not in (BUILD / "CMakeCache.txt").read_text():
    pytest.skip("needs a build with SL_TEST_HOOKS", allow_module_level=True)


def of(role):
    return [name for name in POINTS if name.startswith(role + "_")]


def order(point, signal):
    return {"SPEEDYLOADER_FAULT": f"{point}:{signal}:{POINTS[point]}"}


def state_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class FaultyDaemon(Daemon):
    """Is not waited for: it may be stopped or dead before it answers. again() starts one without a fault."""

    def start(self):
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self._environment)
        self.pid = self.process.pid

    def again(self):
        del self._environment["SPEEDYLOADER_FAULT"]
        Daemon.start(self)


def faulty(daemons, environment):
    daemon = FaultyDaemon(daemons, ["--workers", 2, "--memory", "1GiB"], environment, ())
    daemons.daemons.append(daemon)
    return daemon


def memory_of(daemon):
    """What a daemon has reserved and who uses it; nothing is in use without clients."""
    status = daemon.status()
    return {"streams": status["streams"], "reserved": status["memory"]["reserved"],
            "input_used": status["memory"]["input_used"], "workers": len(status["workers"]), "crews": status["crews"]}


def descriptors_of(daemon):
    """What its descriptors lead to: {kind: how many}. Whoever has asked it for something may still be among them."""
    return collections.Counter(re.sub(r"^/tmp/.*/|\d+", "", link) for link in daemon.descriptors().values())


@pytest.fixture(scope="module")
def job(id_set):
    return id_spec(id_set(COUNT), batch=BATCH, epochs=EPOCHS, seed=5)


@pytest.fixture(scope="module")
def undisturbed(job):
    """The records of a run in which nothing happens, and the daemon without clients afterwards."""
    with Daemons() as daemons:
        daemon = daemons.start()
        records = Runner(daemon.socket, job).finish()
        for epoch in range(EPOCHS):
            assert sorted(sum((ids for of_epoch, _, _, ids in records if of_epoch == epoch), [])) == list(range(COUNT))
        memory = memory_of(daemon)
        assert memory["streams"] == [] and memory["input_used"] == 0
        seen = []
        wait_for(lambda: seen.append(descriptors_of(daemon)) or len(seen) == 100)
        yield records, memory, min(seen, key=collections.Counter.total)


def check(daemon, undisturbed, *runs):
    """Each run is the undisturbed one, batch for batch; and nothing of any client is left in the daemon."""
    records, memory, descriptors = undisturbed
    for run in runs:
        assert run == records
    with contextlib.suppress(AssertionError):
        wait_for(lambda: memory_of(daemon) == memory, 5)
    assert memory_of(daemon) == memory
    with contextlib.suppress(AssertionError):
        wait_for(lambda: descriptors_of(daemon) == descriptors, 5)
    assert descriptors_of(daemon) == descriptors


@pytest.mark.parametrize("point", of("daemon"))
def test_a_daemon_that_is_killed_is_replaced_and_its_clients_go_on(daemons, job, undisturbed, point):
    daemon = faulty(daemons, order(point, "SIGKILL"))
    clients = [Runner(daemon.socket, job) for _ in range(2)]
    assert daemon.process.wait(timeout=30) == -9, daemon.log()
    daemon.again()
    check(daemon, undisturbed, *(client.finish() for client in clients))


@pytest.mark.parametrize("point", of("daemon"))
def test_a_daemon_that_is_stopped_makes_its_clients_wait_and_nothing_else(daemons, job, undisturbed, point):
    daemon = faulty(daemons, order(point, "SIGSTOP"))
    clients = [Runner(daemon.socket, job) for _ in range(2)]
    wait_for(lambda: state_of(daemon.pid) == "T", 30, daemon.log)
    daemon.process.send_signal(signals.SIGCONT)
    check(daemon, undisturbed, *(client.finish() for client in clients))


@pytest.mark.parametrize("point", of("worker"))
def test_a_worker_that_is_killed_is_replaced_and_its_sample_done_again(daemons, job, undisturbed, point):
    daemon = daemons.start(env=order(point, "SIGKILL"))
    clients = [Runner(daemon.socket, job) for _ in range(2)]
    runs = [client.finish() for client in clients]
    wait_for(lambda: daemon.status()["worker_deaths"] == 1, 5, "the point was not reached")
    assert daemon.log().count("died (signal 9)") == 1 and "killed" not in daemon.log()
    check(daemon, undisturbed, *runs)


@pytest.mark.parametrize("point", of("worker"))
def test_a_worker_that_is_stopped_holds_up_nobody_for_longer_than_its_limit(daemons, job, undisturbed, point):
    daemon = daemons.start(env=order(point, "SIGSTOP") | {"SPEEDYLOADER_TEST_JOB_LIMIT_S": 1})
    clients = [Runner(daemon.socket, job) for _ in range(2)]
    stopped = wait_for(lambda: [pid for pid in daemon.worker_pids() if state_of(pid) == "T"], 20, daemon.log)
    runs = [client.finish() for client in clients]
    # One that was stopped with nothing in hand is not missed until it is given something.
    if daemon.status()["worker_deaths"] == 0:
        assert state_of(stopped[0]) == "T"
    else:
        assert f"worker {stopped[0]} has done nothing for 1 s: killed" in daemon.log()
    check(daemon, undisturbed, *runs)


def victim(daemons, daemon, job, point, signal):
    """A client process under a fault."""
    before = daemons.environment
    daemons.environment = before | order(point, signal)
    try:
        return daemons.begin_python(HERE / "runners.py", daemon.socket, daemons.spec_file(job))
    finally:
        daemons.environment = before


def records_of(client):
    return [json.loads(line) for line in client.communicate(timeout=40)[0].splitlines()]


@pytest.mark.parametrize("point", of("client"))
def test_what_a_killed_client_had_not_returned_comes_again_and_nothing_else_does(daemons, daemon, job, undisturbed, point):
    client = victim(daemons, daemon, job, point, "SIGKILL")
    other = Runner(daemon.socket, job)
    told = records_of(client)
    assert client.returncode == -9
    run = [record[:4] for record in told]
    if len(run) < len(undisturbed[0]):
        run += Runner(daemon.socket, job, state=told[-1][4] if told else None).finish()
    check(daemon, undisturbed, run, other.finish())


@pytest.mark.parametrize("point", of("client"))
def test_a_stopped_client_blocks_nobody_and_goes_on_afterwards(daemons, daemon, job, undisturbed, point):
    client = victim(daemons, daemon, job, point, "SIGSTOP")
    wait_for(lambda: state_of(client.pid) == "T", 20, daemon.log)
    other = Runner(daemon.socket, job).finish()
    client.send_signal(signals.SIGCONT)
    run = [record[:4] for record in records_of(client)]
    assert client.returncode == 0
    check(daemon, undisturbed, run, other)


def items_of(stream):
    """The items that are delivered, in order; the bytes of each are checked."""
    items = []
    for batch in stream.batches():
        assert all(batch.valid())
        for words in batch.array("x").reshape(-1, WORDS):
            items.append(int(words[0]) // 1000)
            assert words.tolist() == [items[-1] * 1000 + i for i in range(WORDS)]
    return items


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("point", of("guest"))
def test_an_item_that_a_guest_had_in_hand_is_made_once_all_the_same(daemons, daemon, job, undisturbed, point, signal):
    guests = Guests(daemons, daemon)
    try:
        with Client(daemon.socket) as client:
            stream = client.open(item_spec(ITEMS, guests.crew), items=(list(range(ITEMS)), None))
            (name, value), = order(point, signal).items()
            (faulty_guest,) = guests.start("--delay-us", 2000, wrap=["env", f"{name}={value}"], attach=False)
            if signal == "SIGKILL":
                assert faulty_guest.wait(timeout=20) == -9
            else:
                wait_for(lambda: state_of(faulty_guest.pid) == "T", 20)
            other = Runner(daemon.socket, job).finish()
            guests.start()
            if signal == "SIGSTOP":
                faulty_guest.send_signal(signals.SIGCONT)
            assert items_of(stream) == list(range(ITEMS))
            stream.close()
    finally:
        guests.close()
    check(daemon, undisturbed, other)


@pytest.mark.parametrize("hooks", [True, False])
def test_a_release_has_no_fault_points(tmp_path, hooks):
    root = HERE.parents[1]
    made = tmp_path / "object"
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", f"-I{root}", f"-I{root / 'capi/include'}", "-c", root / "capi/src/next.c",
               "-o", made]
    subprocess.run([*command, *(["-DSL_TEST_HOOKS"] if hooks else [])], check=True)
    assert (b"SPEEDYLOADER_FAULT" in made.read_bytes()) == hooks
    assert (b"client_leased" in made.read_bytes()) == hooks


def test_there_are_fault_points_at_40_places_at_least(capsys):
    with capsys.disabled():
        print(f"\n{len(POINTS)} fault points, each with SIGKILL and SIGSTOP: {', '.join(POINTS)}")
    assert len(POINTS) >= 40
    assert all(of(role) for role in ("daemon", "worker", "client", "guest"))
