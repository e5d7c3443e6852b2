"""Clients are killed with batches in their hands, and names are deleted under those who read (LDR-08)."""

import os
import pathlib
import shutil
import signal

from support.capi import Client
from support.daemon import shared_memory_names, wait_for
from support.specs import id_spec

ROUNDS = 200
AT_ONCE = 8


def held_state(daemon):
    """What a daemon without clients should always have again."""
    status = daemon.status()
    # The connection that asked may not be closed yet: the fewest of some looks are those that stay.
    descriptors = min(len(daemon.descriptors()) for _ in range(20))
    return {"streams": len(status["streams"]), "reserved": status["memory"]["reserved"],
            "input": status["memory"]["input_used"], "descriptors": descriptors}


def hold(socket, job):
    """A forked client that takes three batches, says so with a byte, and keeps them: (pid, where it says so)."""
    said, say = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.close(say)
        return pid, said
    try:
        stream = Client(socket, "held").open(job, slots=4)
        kept = [stream.next()[1] for _ in range(3)]
        os.write(say, b"x" * len(kept[:1]))
        signal.pause()
    finally:
        os._exit(1)


def kill(clients):
    """SIGKILL to those that hold; none may have failed before."""
    for _, said in clients:
        assert os.read(said, 1) == b"x"
        os.close(said)
    for pid, _ in clients:
        os.kill(pid, signal.SIGKILL)
    for pid, _ in clients:
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL


def test_LDR_08_200_clients_killed_with_batches_in_hand_leave_nothing_behind(daemons, daemon, id_set):
    job = id_spec(id_set(60), batch=4, epochs=1000)
    fresh = held_state(daemon)

    def has_all_back():
        now = held_state(daemon)
        # A few are made with the first stream, for ever; one lost with each client would be hundreds.
        few_descriptors = now.pop("descriptors") <= fresh["descriptors"] + 4
        return few_descriptors and all(now[what] == fresh[what] for what in now)

    names, temporary = shared_memory_names(), sorted(daemons.temporary.iterdir())
    for _ in range(ROUNDS // AT_ONCE):
        kill([hold(daemon.socket, job) for _ in range(AT_ONCE)])
        wait_for(lambda: not daemon.status()["streams"], 2, "the slots of the dead")
    wait_for(has_all_back, 2, lambda: (fresh, held_state(daemon)))
    assert shared_memory_names() == names and sorted(daemons.temporary.iterdir()) == temporary
    assert daemon.status()["worker_deaths"] == 0


def files_of(pid):
    """What a process holds or has mapped that has a name in a file system, but for programs and libraries."""
    found = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        found.add(os.readlink(entry))
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        if " /" in line and "x" not in line.split()[1]:
            found.add("/" + line.split(" /", 1)[1])
    return {path for path in found if path.startswith(("/dev/shm", "/tmp", "/run", "/var/tmp"))}


def test_LDR_08_deleting_every_name_that_the_daemon_has_disturbs_no_reader(daemons, daemon, id_set):
    folder = id_set(200)
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(folder, batch=4, epochs=2), slots=4)
        expected = [batch.ids() for batch in stream.batches()]
        stream.close()
        stream = client.open(id_spec(folder, batch=4, epochs=2), slots=4)
        seen = [stream.next()[1].ids() for _ in range(2)]
        # Its shared memory has no names at all, and the others are needed by nobody who is connected.
        assert not [path for path in files_of(daemon.pid) if path.startswith("/dev/shm")]
        own = {path for path in files_of(daemon.pid) if path.startswith(str(daemons.folder))}
        for path in own - {str(daemon.log_file)} | {str(daemon.socket)}:
            pathlib.Path(path).unlink(missing_ok=True)
        shutil.rmtree(daemons.folder / "cache", ignore_errors=True)
        seen_first = len(seen)
        for batch in stream.batches():
            seen.append(batch.ids())
        assert seen == expected and seen_first == 2
        assert stream.stats().reconnects == 0
        stream.close()
