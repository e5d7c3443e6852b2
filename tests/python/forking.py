"""Forks of a process with loaders, for test_fork.py: `in_child`, and a program whose threads iterate.

The program, forking.py SOCKET FOLDER FORKS, is a process of its own so that it is small, whatever frameworks
the tests have loaded by then. It ends with a traceback, or prints how many epochs each thread has read.
"""

import contextlib
import itertools
import os
import signal
import sys
import threading
import traceback

import speedyloader as sl
from stalls import Background, id_loader, ids

EPOCH = list(range(60))
SECONDS = 30  # that a child may take


def in_child(act):
    """Forks, and runs act() in the child; what it raises there is raised here as an AssertionError."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException), open(writer, "w") as out:
            try:
                act()
            except BaseException:
                out.write(traceback.format_exc())
        os._exit(0)
    os.close(writer)
    killer = threading.Timer(SECONDS, os.kill, (child, signal.SIGKILL))
    killer.start()
    with open(reader) as said:
        words = said.read()
    _, status = os.waitpid(child, 0)
    killer.cancel()
    assert (status, words) == (0, ""), f"the child hung, or failed: {words}"


def refuses(use):
    """That a use of an inherited loader is a ForkedError that says what to do."""
    try:
        use()
    except sl.ForkedError as error:
        assert "make a loader in the child" in str(error)
    else:
        raise AssertionError("no ForkedError")


class Job:
    """A thread that iterates over a loader of its own, and what it got: one list of ids an epoch."""

    def __init__(self, loader):
        self.loader = loader
        self.iterator = iter(loader)
        self.batch = next(self.iterator)
        self.epochs = []
        self._ended = threading.Event()
        self._thread = Background(self._run)

    def _run(self):
        batches = itertools.chain([self.batch], self.iterator)
        while not self._ended.is_set():
            self.epochs.append([(batch.epoch, i) for batch in batches for i in ids(batch)])
            self.iterator = batches = iter(self.loader)

    def end(self):
        self._ended.set()
        assert self._thread.join(60).error is None


def check_inherited(job, expected):
    """What a child may do with its parent's loader: ask its length, close it, let go of it; nothing else."""
    batch, iterator, loader = job.batch, job.iterator, job.loader
    for use in (lambda: next(iterator), lambda: next(iter(loader)), loader.state_dict, loader.stats,
                loader.report, loader.reset, lambda: loader.load_state_dict({})):
        refuses(use)
    assert len(loader) == 15 and "15 batches" in repr(loader)
    assert (ids(batch), batch["sample_id"].data_ptr % 256, len(batch.samples())) == (expected, 0, 4)
    loader.close()
    loader.close()
    job.batch = job.iterator = job.loader = batch = iterator = loader = None


def main(socket, folder, forks):
    jobs = [Job(id_loader(socket, folder, slots=4)) for _ in range(2)]

    def act(number):
        for job in jobs:
            check_inherited(job, [0, 1, 2, 3])
        if number % 25 == 0:
            with id_loader(socket, folder) as own:
                assert [i for batch in own for i in ids(batch)] == EPOCH

    for number in range(forks):
        in_child(lambda number=number: act(number))
    for job in jobs:
        job.end()
        assert job.epochs == [[(epoch, i) for i in EPOCH] for epoch in range(len(job.epochs))]
        assert ids(job.batch) == [0, 1, 2, 3]
        assert job.loader.stats()["held"] == 1
    print(min(len(job.epochs) for job in jobs))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
