"""A mount that never answers: what is left of the rate of those who read from another one?

Task: a client takes whole epochs of photographs from a local folder (random-resized-crop to 224, flip, float32,
strict order, as many workers as cores, warm page cache). A round measures it alone, and beside another client
with three open streams on a FUSE mount whose server (tests/reader/fuse_folder.py) has stopped answering reads:
as many of them sleep as that mount has reading threads, for the whole of the measured time. Both for a daemon
that reads by io_uring and for one that reads by threads. `..._ratio` is the median over the rounds of rate
beside / rate alone in the same round.

Caveats: needs /dev/fuse and python3-fusepy. The streams that hang take their share of the input buffers. The
rate is the decoders', and consumer and daemon share the cores with them.
"""

import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time

import common

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos"]
BACK_ENDS = ("uring", "threads")
HUNG_STREAMS = 3
HUNG_READS = 4  # the threads of a mount that may hang
RATE = "samples/s"


def tools():
    """The daemons, the C API and the FUSE server of the tests, over the build tree that is measured."""
    os.environ["SL_BUILD_DIR"] = str(common.BUILD)
    sys.path[:0] = [str(common.ROOT / "tests"), str(common.ROOT / "tests" / "reader")]
    import fuse_folder
    from support import capi, daemon, specs
    return fuse_folder, capi, daemon, specs


def epochs(client, job):
    """Samples a second, from the opening to the end."""
    began = time.monotonic()
    stream = client.open(job)
    samples = sum(sum(batch.valid()) for batch in stream.batches())
    stream.close()
    return samples / (time.monotonic() - began)


class Place:
    """The local folder's job, and the mount that hangs or does not; used by all parts."""

    def __init__(self, fuse_folder, specs, count, size, epochs_a_round):
        self._stack = contextlib.ExitStack()
        folder = common.make_photos(count)
        self.job = specs.spec(folder, size=(224, 224), batch=size, seed=1, last="drop", epochs=epochs_a_round)
        served = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sl-bench-hung"))
        for number, photo in enumerate(sorted(folder.rglob("*.jpg"))[:100]):
            shutil.copy(photo, f"{served}/{number:03d}.jpg")
        self.mount = self._stack.enter_context(fuse_folder.Mount(served))
        if self.mount.trouble is not None:
            self._stack.close()
            raise common.BenchError(f"cannot mount: {self.mount.trouble.strip()[-200:]}")
        self.hanging = specs.spec(self.mount.folder, size=(224, 224), batch=10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    @contextlib.contextmanager
    def hung(self, client, wait_for):
        before = self.mount.asleep()
        self.mount.rule("all", on="read", sleep=True)
        streams = [client.open(self.hanging) for _ in range(HUNG_STREAMS)]
        wait_for(lambda: self.mount.asleep() >= before + HUNG_READS, 30, "reads that sleep")
        yield
        held = client.status()["memory"]["input_used"]
        self.mount.wake()
        for stream in streams:
            stream.close()
        wait_for(lambda: client.status()["memory"]["input_used"] == 0, 30, "the buffers")
        if held == 0:
            raise common.BenchError("the mount answered while the rate beside it was measured")


def measure(options):
    fuse_folder, capi, daemon, specs = tools()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise common.BenchError("/dev/fuse cannot be opened here")
    workers = os.cpu_count()
    place = Place(fuse_folder, specs, 1024, 64, 2 if options.quick else 6)
    with place, daemon.Daemons() as daemons, contextlib.ExitStack() as stack:
        clients = {}
        for back_end in BACK_ENDS:
            socket = daemons.start("--io", back_end, workers=workers, memory="2GiB").socket
            clients[back_end] = [stack.enter_context(capi.Client(socket, name)) for name in ("here", "there")]
            epochs(clients[back_end][0], {**place.job, "epochs": 1})  # the predictor's first look

        def part(back_end, beside):
            here, there = clients[back_end]
            with place.hung(there, daemon.wait_for) if beside else contextlib.nullcontext():
                return {RATE: epochs(here, place.job)}

        parts = {f"{back_end}, {'beside' if beside else 'alone'}": lambda _, b=back_end, h=beside: part(b, h)
                 for back_end in BACK_ENDS for beside in (False, True)}
        results = common.interleave(parts, 3 if options.quick else 9, lambda text: print(text, file=sys.stderr))
    rates = {name: common.column(found, RATE) for name, found in results.items()}
    figures = {f"{b}_ratio": statistics.median(beside / alone for alone, beside in
                                               zip(rates[f"{b}, alone"], rates[f"{b}, beside"]))
               for b in BACK_ENDS}
    figures |= {f"{b}_{where}_sps": statistics.median(rates[f"{b}, {where}"])
                for b in BACK_ENDS for where in ("alone", "beside")}
    note = f"{HUNG_STREAMS} streams with {HUNG_READS} reads that never return beside it; {workers} workers"
    return common.Report([(name, {RATE: values}) for name, values in rates.items()], figures, [note],
                         (RATE, rates))
