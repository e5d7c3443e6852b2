"""Clients for the kill matrix that get to the end of their stream whatever happens on the way.

As a program, `runners.py SOCKET SPEC [STATE]`, one of them prints a line of JSON for each batch that it has read and
returned: [epoch, batch, digest, sample ids, the position behind it].
"""

import hashlib
import json
import pathlib
import sys
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from support.capi import END, OK, TIMEOUT, Client, Error  # noqa: E402

# A daemon that has been killed, and the moment until the next one answers. A library that reconnects by itself never
# shows the first.
PASSING = ("SL_E_DISCONNECTED", "SL_E_NO_DAEMON")
PATIENCE_S = 30


def record_of(batch):
    tensors = b"".join(batch.raw(name)[2] for name in ("image", "sample_id", "valid", "label"))
    epoch, number, _ = batch.place()
    return [epoch, number, hashlib.sha256(tensors).hexdigest(), batch.ids()]


def run(socket, job, state, on_batch):
    """Every batch from `state` on; on_batch(record, position behind it) once each has been returned."""
    deadline = time.monotonic() + PATIENCE_S
    ended = False
    while not ended:
        try:
            with Client(socket, "runner") as client:
                stream = client.open(job, state=state)
                while not ended:
                    status, batch = stream.next(1000)
                    ended = status == END
                    if status == OK:
                        record = record_of(batch)
                        batch.release()
                        state = stream.state()
                        on_batch(record, state)
                    if status != TIMEOUT:
                        deadline = time.monotonic() + PATIENCE_S
                    assert time.monotonic() < deadline, "no batch"
                stream.close()
        except Error as error:
            if error.code not in PASSING or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class Runner(threading.Thread):
    """One in a thread of the test: finish() gives its records."""

    def __init__(self, socket, job, state=None):
        super().__init__(daemon=True)
        self._arguments = (socket, job, state)
        self._records = []
        self._failure = None
        self.start()

    def run(self):
        try:
            run(*self._arguments, lambda record, _: self._records.append(record))
        except (Error, AssertionError) as failure:
            self._failure = failure

    def finish(self, seconds=40):
        self.join(seconds)
        assert not self.is_alive(), f"a client is stuck after {len(self._records)} batches"
        if self._failure is not None:
            raise self._failure
        return self._records


if __name__ == "__main__":
    run(sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text()), sys.argv[3] if len(sys.argv) > 3 else None,
        lambda record, state: print(json.dumps([*record, state]), flush=True))
