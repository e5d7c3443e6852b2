"""300 rounds in which daemon, clients, or both are killed; whoever lives goes on at the batch that is due.

Two clients that stay, one with two streams, read without end. Each keeps, for every stream, the position that is
due, and every batch must be that one, with the ids that the plan has for it. Other clients are killed and begin
again at the position that they told last. Descriptors and memory of those that stay, the machine's shared memory
and the file system are at the end as after the first rounds.
"""

import json
import os
import pathlib
import random
import signal
import time

from support.daemon import marked, shared_memory_names, wait_for
from support.specs import id_spec

ROUNDS = 300
COUNT, BATCH = 60, 8
READER = pathlib.Path(__file__).with_name("reader.py")
WARM = 30  # rounds before the first measurement
KIB_MORE = 2048  # of a client's own memory, for its allocator's habits
SHMEM_KIB_MORE = 1 << 20  # of the whole machine's, where others work too; a daemon that is not freed takes 64 MiB and more


def shmem_kib():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1])
    return 0


class Reader:
    """A client in a process of its own (reader.py), told by lines what to do."""

    def __init__(self, daemons, daemon, job, streams, state="-"):
        self._make = lambda at: daemons.begin_python(READER, daemon.socket, job, streams, at)
        self.process = self._make(state)
        self.state = state

    def step(self):
        """It takes a few batches of each stream, checks them, and says where it is."""
        self.process.stdin.write("step\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"the reader ended with {self.process.wait()}"
        said = json.loads(line)
        self.state = said["state"]
        return said

    def kill_and_follow(self):
        """SIGKILL; another one goes on where this one said that it was."""
        self.process.kill()
        self.process.communicate()
        self.process = self._make(self.state)


def test_300_rounds_of_kills_lose_no_position_and_leave_nothing_behind(daemons, daemon, id_set):
    draw = random.Random(8)
    job = daemons.spec_file(id_spec(id_set(COUNT), batch=BATCH, seed=3, epochs=1_000_000))
    names, files = shared_memory_names(), sorted(os.listdir(daemons.temporary))
    staying = [Reader(daemons, daemon, job, 2), Reader(daemons, daemon, job, 1)]
    passing = Reader(daemons, daemon, job, 1)
    for reader in (*staying, passing):
        reader.step()
        reader.answer()
    started = time.monotonic()
    before = None
    for round_number in range(ROUNDS):
        for reader in (*staying, passing):
            reader.step()
        what = draw.choice(["daemon", "client", "both"])
        time.sleep(draw.random() * 0.02)  # so that it happens at any point of what they do
        if what != "client":
            daemon.process.kill()
        if what != "daemon":
            passing.kill_and_follow()
        if what != "client":
            daemon.process.wait()
            daemon.launch()
        said = [reader.answer() for reader in staying]
        if what == "daemon":
            passing.answer()
        if round_number + 1 == WARM:
            before = said, shmem_kib()
    took = time.monotonic() - started
    print(f"{ROUNDS} rounds in {took:.1f} s; {[one['reconnects'] for one in said]} reconnections")
    for reader in (*staying, passing):
        reader.step()
    after = [reader.answer() for reader in staying]
    passing.answer()
    for first, last in zip(before[0], after, strict=True):
        assert last["descriptors"] == first["descriptors"]
        assert last["maps"] == first["maps"]
        assert last["private_kib"] <= first["private_kib"] + KIB_MORE
        assert last["steps"] > first["steps"] and last["reconnects"] > 100
    wait_for(lambda: shmem_kib() < before[1] + SHMEM_KIB_MORE, 30, "the shared memory of the dead daemons")
    for reader in (*staying, passing):
        reader.process.send_signal(signal.SIGKILL)
        reader.process.wait()
    wait_for(lambda: not daemon.status()["streams"], 5, "the slots of the dead")
    assert shared_memory_names() == names
    assert sorted(os.listdir(daemons.temporary)) == files
    assert len([name for name in marked(daemons.mark).values() if name == "speedyloaderd"]) == 1
