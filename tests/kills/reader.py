"""reader.py SOCKET SPEC STREAMS STATE: a client that never lets a batch pass that is not the one that is due.

For each line on its standard input it takes some batches of each of its streams and prints one line of JSON: its
position, what it holds, and how often its daemon was lost. STATE: where it begins, or "-". It ends with status 1
and a traceback where anything is not as it should be.
"""

import json
import os
import pathlib
import re
import sys
import time

from support.capi import END_OF_EPOCH, OK, Client, Error

A_STEP = 3  # batches of each stream


class Follower:
    """A stream, and the place that its next batch must have; the ids of an epoch must be each sample's once."""

    def __init__(self, client, job, state):
        self._stream = client.open(job, slots=4, state=state)
        self._due = (self._stream.first_epoch, self._stream.first_batch)
        self._seen = set()
        self._whole = self._stream.first_batch == 0
        self._held = []

    def take(self):
        status, batch = self._stream.next()
        if status == END_OF_EPOCH:
            assert self._due[1] == 0, self._due
            assert not self._whole or self._seen == set(range(self._stream.samples)), self._seen
            self._seen, self._whole = set(), True
            return
        assert status == OK, status
        assert batch.place()[:2] == self._due, (batch.place(), self._due)
        ids = batch.ids()
        assert not self._seen & set(ids)
        for sample, pixels in zip(ids, self._pixels(batch), strict=True):
            assert pixels == (sample & 255, sample >> 8, 0), (sample, pixels)
        self._seen |= set(ids)
        epoch, index = self._due
        self._due = (epoch, index + 1) if index + 1 < self._stream.batches_per_epoch else (epoch + 1, 0)
        # One is held over whatever comes, and must not have changed when it is let go of.
        self._held.append((batch, batch.raw("image")[2]))
        if len(self._held) > 1:
            old, content = self._held.pop(0)
            assert old.raw("image")[2] == content
            old.release()

    @staticmethod
    def _pixels(batch):
        _, shape, data = batch.raw("image")
        a_row = len(data) // shape[0]
        return [tuple(data[at:at + 3]) for at in range(0, shape[0] * a_row, a_row)]

    @property
    def step(self):
        return self._due[0] * self._stream.batches_per_epoch + self._due[1]

    def state(self):
        return self._stream.state()

    def reconnects(self):
        return self._stream.stats().reconnects


def private_kib():
    rollup = pathlib.Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"^Private_Dirty:\s*(\d+)", rollup, re.MULTILINE).group(1))


def begin(socket, job, streams, state):
    """A client and its streams. Who begins has no daemon's word yet that there will be another one."""
    deadline = time.monotonic() + 20
    while True:
        try:
            client = Client(socket, "reader", reconnect_ms=20_000)
            return client, [Follower(client, job, state) for _ in range(streams)]
        except Error as error:
            if error.code not in ("SL_E_NO_DAEMON", "SL_E_DISCONNECTED") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def main():
    socket, spec_file, streams, state = sys.argv[1:]
    with open(spec_file) as file:
        job = json.load(file)
    client, followers = begin(socket, job, int(streams), None if state == "-" else state)
    with client:
        for _ in sys.stdin:
            for _ in range(A_STEP):
                for follower in followers:
                    follower.take()
            maps = pathlib.Path("/proc/self/maps").read_text()
            print(json.dumps({"state": followers[0].state(), "steps": sum(one.step for one in followers),
                              "reconnects": sum(one.reconnects() for one in followers),
                              "descriptors": len(os.listdir("/proc/self/fd")), "maps": maps.count("memfd:speedyloader"),
                              "private_kib": private_kib()}), flush=True)


main()
