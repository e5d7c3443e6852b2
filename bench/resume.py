"""From a saved position to the first batch: is the end of an epoch as near as its beginning?

Task: an image folder of 1,000,000 samples (--quick: 100,000), hard links to a few photographs on tmpfs in
1,000 classes, deleted afterwards; batches of 64, random-resized-crop to 64, two workers. Measured is the time
from sl_open with a state to the first batch, at the start and at 1, 50 and 99 percent of epoch 3, on one
daemon, each round beginning with another. Each batch is checked to be the one that the position names.

Caveat: an opening scans the folder as far as the daemon has to, and that is most of the time shown; `scan` is
the opening of the same folder for its first sample alone, as its own row. `round_trip_ns` is the plan's
arithmetic alone: position -> id -> position among 1,000,000,000 samples (bench/round_trip.cpp), and
`mix_round_trip_ns` that of a mix of four parts.
"""

import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import common
from seam import tools

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos", "sl_bench_round_trip"]
CLASSES = 1000
PICTURES = 20
PLACES = {"start": 0.0, "1 percent": 0.01, "50 percent": 0.5, "99 percent": 0.99}
FIRST, TRIP = "s to the first batch", "ns"


def link_samples(folder, count):
    """`count` links in class folders; the pictures lie beside, on the same file system."""
    store = folder / "pictures"
    store.mkdir()
    sources = []
    for number, photo in enumerate(sorted(common.make_photos(100).rglob("*.jpg"))[:PICTURES]):
        shutil.copy(photo, store / f"{number}.jpg")
        sources.append(str(store / f"{number}.jpg"))
    each = count // CLASSES
    for label in range(CLASSES):
        name = folder / "set" / f"class_{label:04d}"
        name.mkdir(parents=True)
        home = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        for number in range(each):
            os.link(sources[number % PICTURES], f"{number:05d}.jpg", dst_dir_fd=home)
        os.close(home)
    return folder / "set"


def first_batch(client, job, state, epoch, batch):
    """Seconds from the opening to the first batch, which must be that one."""
    begin = time.perf_counter()
    stream = client.open(job, state=state)
    while True:
        _, taken = stream.next()
        if taken is not None:
            break
    seconds = time.perf_counter() - begin
    if taken.place()[:2] != (epoch, batch):
        raise common.BenchError(f"the state names batch {batch} of epoch {epoch}, but {taken.place()} came")
    taken.release()
    stream.close()
    return seconds


def positions(client, job, epoch=3):
    """{name: (state, epoch, batch)} of PLACES."""
    stream = client.open(job)
    document, batches = json.loads(stream.state()), stream.batches_per_epoch
    stream.close()
    return {name: (json.dumps(document | {"epoch": epoch, "batch": int(share * batches)}), epoch,
                   int(share * batches)) for name, share in PLACES.items()}


def round_trip(rounds):
    return [common.last_json(common.run_program([common.BUILD / "bin" / "sl_bench_round_trip"]).stdout)
            for _ in range(rounds)]


def measure(options):
    count, rounds = (100_000, 7) if options.quick else (1_000_000, 7)
    trips = round_trip(rounds)  # first, for it must be this process's only child
    capi, daemon, specs = tools()
    with tempfile.TemporaryDirectory(prefix="sl-bench-", dir="/dev/shm") as folder:
        begin = time.monotonic()
        links = link_samples(pathlib.Path(folder), count)
        job = specs.spec(links, size=(64, 64), batch=64, last="drop", epochs=5)
        print(f"made {count:,} links in {time.monotonic() - begin:.0f} s", file=sys.stderr)
        one = job | {"dataset": job["dataset"] | {"subset": {"ids": [0]}},
                     "batch": {"size": 1, "last": "keep"}, "epochs": 1}
        with daemon.Daemons() as daemons, capi.Client(daemons.start(memory="2GiB").socket, "bench") as client:
            parts = {name: (lambda _, place=place: first_batch(client, job, *place))
                     for name, place in positions(client, job).items()}
            parts["scan"] = lambda _: first_batch(client, one, None, 0, 0)
            results = common.interleave(parts, rounds, lambda text: print(text, file=sys.stderr))
    rows = [(name, {FIRST: found}) for name, found in results.items()]
    one_folder, mixed = ([trip[key] for trip in trips] for key in ("ns", "mix_ns"))
    rows += [("round trip at 10^9", {TRIP: one_folder}), ("the same, four parts mixed", {TRIP: mixed})]
    figures = {f"resume_{short}_s": statistics.median(results[name]) for name, short in
               (("start", "start"), ("1 percent", "1pct"), ("50 percent", "50pct"), ("99 percent", "99pct"))}
    figures |= {"scan_s": statistics.median(results["scan"]), "round_trip_ns": statistics.median(one_folder),
                "mix_round_trip_ns": statistics.median(mixed)}
    return common.Report(rows, figures, [f"{count:,} samples, batches of 64, two workers"],
                         (FIRST, dict(results)))
