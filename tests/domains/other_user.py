"""A client of a daemon that a test drives over its standard input and output, so that it can be another user's.

One request a line, one answer a line, both JSON; an error of a call is {"error": its text, "code": its name}. It
ends with its input. Not a test; conftest.py starts it.
"""

import hashlib
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from support.capi import Client, Error  # noqa: E402


class Peer:
    def __init__(self, socket):
        self._client = Client(socket, "peer")
        self._streams = []
        self._held = []

    def open(self, spec):
        self._streams.append(self._client.open(spec))
        return self._streams[-1].samples

    def next(self):
        """Takes a batch of the newest stream and keeps it."""
        _, batch = self._streams[-1].next()
        self._held.append(batch)
        return batch.ids()

    def take_for(self, warm, seconds):
        """Takes batches of the newest stream as they come; how many samples there were after the first `warm` s."""
        begin = time.monotonic() + warm
        taken = 0
        while time.monotonic() < begin + seconds:
            _, batch = self._streams[-1].next(100)
            if batch is not None:
                taken += len(batch.valid()) if time.monotonic() >= begin else 0
                batch.release()
        return taken

    def finish(self):
        """The newest stream to its end and closed: a hash of all images in order, the ids, the failures."""
        for batch in self._held:
            batch.release()
        self._held = []
        stream = self._streams.pop()
        content = hashlib.sha256()
        ids = []
        for batch in stream.batches():
            content.update(batch.raw("image")[2])
            ids += batch.ids()
        failures = [(failure["kind"], failure["path"]) for failure in stream.report()["failures"]]
        stream.close()
        return {"hash": content.hexdigest(), "ids": ids, "failures": failures}

    def close(self):
        for batch in self._held:
            batch.release()
        self._held = []
        self._streams.pop().close()

    def status(self):
        return self._client.status()

    def traced_streams(self):
        """Streams that the trace tells of."""
        return sorted({event.stream for event in self._client.trace()[0]})


def main():
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        try:
            answer = {"answer": getattr(peer, verb)(*arguments)}
        except Error as error:
            answer = {"error": str(error), "code": error.code}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
