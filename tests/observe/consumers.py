"""A job that runs in the background of a test: takes batches, works on each for a fixed time, never ends by itself.

A context manager; one thread of its own with its own connection. What went wrong in it is raised at its end.
"""

import threading
import time

from support.capi import END, OK, Client
from support.daemon import wait_for

FOREVER = 10**9
SLICE_MS = 100


class Job(threading.Thread):
    """step: seconds of work a batch (the GPU's, so it is slept)."""

    def __init__(self, daemon, spec, step=0.0, slots=0):
        super().__init__()
        self._daemon, self._spec, self._step, self._slots = daemon, spec, step, slots
        self._ended = threading.Event()
        self.batches = 0
        self.trouble = None

    def run(self):
        try:
            with Client(self._daemon.socket, "job") as client:
                stream = client.open(self._spec, slots=self._slots)
                status = OK
                while not self._ended.is_set() and status != END:
                    status, batch = stream.next(SLICE_MS)
                    if batch is not None:
                        self.batches += 1
                        time.sleep(self._step)
                        batch.release()
                stream.close()
        except BaseException as error:
            self.trouble = error

    def __enter__(self):
        self.start()
        return self

    def warm(self, batches):
        """Until it has had so many batches."""
        wait_for(lambda: self.batches >= batches or self.trouble, 60, "the job gets no batches")
        return self

    def __exit__(self, *_):
        self._ended.set()
        self.join()
        if self.trouble is not None:
            raise self.trouble
