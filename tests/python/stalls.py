"""Streams that wait when a test wants them to: loaders of id pictures, workers that are stopped for a while.

For the tests of a client's life and death. Nothing here sleeps for a fixed time; what does not come within
half a minute is an AssertionError, and a batch that does not come within one a WaitTimeout.
"""

import contextlib
import os
import pathlib
import signal
import threading

import speedyloader as sl
from support.daemon import wait_for

FUTEX = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]


def id_loader(socket, folder, **options):
    """A loader of id pictures in the order of their ids, four to a batch."""
    usual = {"batch_size": 4, "last": "keep", "shuffle": False, "dtype": "uint8", "timeout": 60}
    return sl.Loader(folder, [sl.Resize((2, 2))], socket=str(socket), **(usual | options))


def ids(batch):
    return memoryview(batch["sample_id"]).tolist()


@contextlib.contextmanager
def stopped_workers(daemon):
    """No sample is decoded meanwhile. Gives the function that ends it before the block does."""
    pids = wait_for(lambda: len(pids := daemon.worker_pids()) == 2 and pids)

    def let_go_on():
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield let_go_on
    finally:
        let_go_on()


def in_next(process, thread=None):
    """Whether a thread of a process, by default its first, waits for a batch.

    That is a sleep on shared memory; locks, the GIL's too, are futexes of one process (FUTEX_PRIVATE_FLAG).
    """
    call = pathlib.Path(f"/proc/{process}/task/{thread or process}/syscall").read_text().split()
    return call[0] == FUTEX and int(call[2], 16) == 0


def wait_until_in_next(process, thread=None):
    wait_for(lambda: in_next(process, thread), what=f"process {process} waits for a batch")


class Background:
    """A function on a thread of its own. `result` or `error` is there after join()."""

    def __init__(self, function):
        self.result = self.error = None
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function):
        try:
            self.result = function()
        except BaseException as error:  # the thread that joins judges it
            self.error = error

    def wait_until_in_next(self):
        wait_until_in_next(os.getpid(), self._thread.native_id)

    def join(self, seconds=30):
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"not within {seconds} s"
        return self
