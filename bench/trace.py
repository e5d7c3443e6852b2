"""What the trace costs, which is always on: a sample's events against the CPU time that a sample takes.

Task: photographs, random-resized-crop to 224, flip, float32, two workers, a consumer that takes every batch at once; a
daemon of its own for each run. The cost of an event (its look at the clock included) and of a look at the clock are
measured alone, in CPU time, by a program that records into the daemon's own class. How many events a sample makes is
counted in the run's trace; besides, a sample has seven looks at the clock: three when an open, a read and a decode are
asked for, two of its worker, two of its assembler thread. Their sum by the CPU time of daemon and workers is the
`share of a sample`.

  photographs  as above
  tiny         pictures of 2 x 2 pixels, nothing but hand-overs: the most that the trace can cost

`hand-over ms` is CPU time of the conductor for giving a client the whole trace, by the status before and after five.

Caveats: alone the ring lies in the cache, which in the daemon it may not; a 64-byte store that misses costs some
10 ns more. An A/B run of whole daemons would show less than its noise.
"""

import os
import pathlib
import statistics
import sys
import tempfile

import common

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos", "sl_bench_event_cost"]
LOOKS = 7
EVENT, EVENTS, SPENT, SHARE, HAND = "event ns", "events a sample", "ns a sample", "share of a sample", "hand-over ms"


def tools():
    """The daemons and the C API of the tests, over the build tree that is measured."""
    os.environ["SL_BUILD_DIR"] = str(common.BUILD)
    sys.path[:0] = [str(common.ROOT / "tests"), str(common.ROOT / "tests" / "makers")]
    import test_card
    from support import capi, daemon, specs
    return capi, daemon, specs, test_card


def hand_over(client, times=5):
    before = client.status()["stages"]["conductor"]["busy_s"]
    for _ in range(times):
        client.trace()
    return (client.status()["stages"]["conductor"]["busy_s"] - before) / times * 1e3


def run(client, job, cost):
    before = client.status()["cpu_seconds"]
    stream = client.open(job)
    samples = sum(len(batch.ids()) for batch in stream.batches())
    stream.close()
    cpu = client.status()["cpu_seconds"] - before
    events, overwritten = client.trace()
    made = (len(events) + overwritten) / samples
    spent = made * cost["event_ns"] + LOOKS * cost["clock_ns"]
    return {EVENT: cost["event_ns"], EVENTS: made, SPENT: spent, SHARE: spent / 1e9 / (cpu / samples),
            HAND: hand_over(client)}


def measure(options):
    cost = common.last_json(common.run_program([common.BUILD / "bin" / "sl_bench_event_cost"]).stdout)
    count = 500 if options.quick else 2000
    photos = common.make_photos(count)
    capi, daemon, specs, test_card = tools()
    with tempfile.TemporaryDirectory(prefix="sl-bench-", dir="/dev/shm") as folder, daemon.Daemons() as daemons:
        tiny = pathlib.Path(folder)
        test_card.id_pictures(tiny, count, classes=1, size=(2, 2))
        jobs = {"photographs": specs.spec(photos, size=(224, 224), batch=64, epochs=2),
                "tiny": specs.id_spec(tiny, batch=64, epochs=10)}

        def part(job):
            started = daemons.start(memory="2GiB")
            with capi.Client(started.socket, "bench") as client:
                found = run(client, job, cost)
            started.stop()
            return found

        results = common.interleave({name: (lambda _, job=job: part(job)) for name, job in jobs.items()},
                                    1 if options.quick else 5, lambda text: print(text, file=sys.stderr))
    columns = (EVENT, EVENTS, SPENT, SHARE, HAND)
    rows = [(name, {column: common.column(found, column) for column in columns})
            for name, found in results.items()]

    def median(name, column):
        return statistics.median(common.column(results[name], column))
    figures = {"event_ns": cost["event_ns"], "clock_ns": cost["clock_ns"],
               "overhead_share": median("photographs", SHARE), "tiny_overhead_share": median("tiny", SHARE),
               "sample_ns": median("photographs", SPENT), "hand_over_ms": median("tiny", HAND)}
    return common.Report(rows, figures, [f"{count} pictures, batches of 64, two workers"],
                         (SHARE, {name: common.column(found, SHARE) for name, found in results.items()}))
