"""ours.py FOLDER WORKERS POLICY [FLAG]...: this project as a loader of bench/tail.py (server.py).

Starts a daemon of its own below itself, with the flags, and one stream whose epochs
follow each other without a pause. The programs are those below $SL_BUILD_DIR. Beside what server.py tells:
buffered batches (samples that workers have finished and the consumer has not taken, asked of the daemon
after every fifth batch, which still counts: so it is what lay there when that batch was taken), bytes that
the stream has reserved, the error of prediction (the run's first 200 samples are not counted) and what
samples cost.
"""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests"))

from server import serve  # noqa: E402
from support import capi, daemon, specs  # noqa: E402  (tests/ must be on the path first)

BATCH = 16
ASK_EVERY = 5  # batches
WARM_AFTER = 200  # samples


class Watch:
    """What the daemon and its batches say, gathered while the consumer's step passes."""

    def __init__(self, client, folder):
        self._client = client
        files = sorted((path.parent.name, path.name) for path in pathlib.Path(folder).glob("*/*.jpg"))
        self._heavy = {number for number, (_, name) in enumerate(files) if name.startswith("heavy")}
        self._taken = 0
        self._forget()

    def _forget(self):
        self._errors, self._costs, self._buffered, self._reserved = [], [], [], 0

    def after(self, batch):
        for row, sample in enumerate(batch.samples()):
            self._costs.append((sample.sample_id in self._heavy, sample.actual_us))
            if self._taken + row >= WARM_AFTER:
                self._errors.append(abs(sample.predicted_us - sample.actual_us) / max(1, sample.actual_us))
        if self._taken // BATCH % ASK_EVERY == 0:
            status = self._client.status()
            finished = sum(worker["completed"] for worker in status["workers"])
            self._buffered.append((finished - self._taken) / BATCH)
            self._reserved = status["streams"][0]["memory_bytes"]
        self._taken += BATCH

    def collect(self):
        heavy = [cost for is_heavy, cost in self._costs if is_heavy]
        light = [cost for is_heavy, cost in self._costs if not is_heavy]
        told = {"buffer_most": max(self._buffered, default=0.0), "reserved_mb": self._reserved / 1e6,
                "mape": statistics.fmean(self._errors) if self._errors else 0.0,
                "cost_ms": statistics.fmean(light + heavy) / 1e3,
                "variation": statistics.pstdev(light + heavy) / statistics.fmean(light + heavy),
                "heavy_ratio": statistics.fmean(heavy) / statistics.fmean(light) if heavy and light else 0.0}
        self._forget()
        return told


def endless(stream):
    """Each batch is given back when the next is asked for, before the wait for that one begins."""
    while True:
        status, batch = stream.next()
        if status == capi.TIMEOUT:
            raise SystemExit("no batch within a minute")
        if batch is not None:
            yield batch
            batch.release()


def main():
    folder, workers, policy, *flags = sys.argv[1:]
    spec = specs.spec(folder, size=(224, 224), batch=BATCH, last="drop", seed=1, policy=policy,
                      epochs=100_000)
    with daemon.Daemons() as daemons:
        started = daemons.start(*flags, workers=workers, memory="2GiB")
        with capi.Client(started.socket, "bench") as client:
            stream = client.open(spec)
            watch = Watch(client, folder)
            serve(endless(stream), watch.after, watch.collect)
            stream.close()


if __name__ == "__main__":
    main()
