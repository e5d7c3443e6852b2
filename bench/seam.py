"""The seam between epochs: are the workers as busy there as in the middle of an epoch?

Task: 20 short epochs of photographs (20 batches each), random-resized-crop to 224, flip, float32, strict
order, as many workers as cores, a consumer that takes every batch at once. The status says how much CPU time
the workers have used; it is asked whenever a border of a window is delivered. A window is 8 batches: `seam`
from the fifth batch before an epoch's end to the fourth of the next one, `middle` around an epoch's tenth
batch. Busy is CPU time of the workers / (time x workers), over all 19 seams or all 20 middles of a run. Idle is
time in which a worker decodes nothing, by the daemon's trace: milliseconds a worker and window of eight batches'
publications, over the seams and middles that the trace still holds when the run ends.

  pipelined  one stream of 20 epochs: no drain at the seam is what is claimed
  drained    a stream an epoch, opened when the one before has ended: what a drain looks like

Caveats: what a window shows was decoded up to a ring's batches earlier. The kernel counts CPU time of workers
in ticks of 10 ms. Consumer and daemon share the cores with the workers, so busy stays below 1 on a small
machine: compare seam and middle of one run only.
"""

import os
import statistics
import sys

import common

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos"]
EPOCHS = 20
BATCHES = 20  # an epoch
SEAM = (BATCHES - 5, 3)  # borders: delivered batches, of one epoch and of the next
MIDDLE = (5, 13)
BUSY, IDLE, RATE = "busy", "idle ms", "samples/s"


def tools():
    """The daemons and the C API of the tests, over the build tree that is measured."""
    os.environ["SL_BUILD_DIR"] = str(common.BUILD)
    sys.path.insert(0, str(common.ROOT / "tests"))
    from support import capi, daemon, specs
    return capi, daemon, specs


def sample(client):
    """(CPU seconds of the workers so far, time) as the daemon says them in one answer."""
    status = client.status()
    return status["cpu_seconds"] - status["daemon_cpu_seconds"], status["uptime_s"]


def run(client, job, drained):
    """{(epoch, index of a delivered batch): sample} at the windows' borders, and the whole run's seconds."""
    borders = {}
    stream = client.open({**job, "epochs": EPOCHS})
    state = stream.state()
    _, begin = sample(client)
    if drained:
        stream.close()
    for epoch in range(EPOCHS):
        if drained:
            first = state.replace('"epoch":0', f'"epoch":{epoch}')
            stream = client.open({**job, "epochs": epoch + 1}, state=first)
        taken = 0
        while taken < BATCHES:
            _, batch = stream.next()
            if batch is None:
                continue
            batch.release()
            if taken in (*SEAM, *MIDDLE):
                borders[epoch, taken] = sample(client)
            taken += 1
        if drained:
            stream.close()
    _, end = sample(client)
    events, _ = client.trace()
    if not drained:
        stream.close()
    return borders, end - begin, events


def idle_ms(events, windows, workers, kinds):
    """Mean idle time of a worker in the windows between publications; `kinds` are decode and publish."""
    decode, publish = kinds
    published = {(e.epoch, e.batch): e.end_ns for e in events if e.kind == publish}
    spans = [(e.begin_ns, e.end_ns) for e in events if e.kind == decode]
    first = min(begin for begin, _ in spans)
    idle = []
    for early, late in windows:
        begin, end = published.get(early, 0), published.get(late, 0)
        if begin < first or end == 0:
            continue  # overwritten
        busy_ns = sum(max(0, min(end, b) - max(begin, a)) for a, b in spans)
        idle.append(((end - begin) * workers - busy_ns) / workers / 1e6)
    return statistics.mean(idle)


def busy(borders, windows, workers):
    cpu = sum(borders[late][0] - borders[early][0] for early, late in windows)
    return cpu / workers / sum(borders[late][1] - borders[early][1] for early, late in windows)


def measure(options):
    capi, daemon, specs = tools()
    size = 16 if options.quick else 64
    folder = common.make_photos(BATCHES * size)
    job = specs.spec(folder, size=(224, 224), batch=size, last="drop", seed=1)
    workers = os.cpu_count()
    seams = [((e, SEAM[0]), (e + 1, SEAM[1])) for e in range(EPOCHS - 1)]
    middles = [((e, MIDDLE[0]), (e, MIDDLE[1])) for e in range(EPOCHS)]
    with daemon.Daemons() as daemons:
        socket = daemons.start(workers=workers, memory="2GiB").socket

        def part(drained):
            with capi.Client(socket, "bench") as client:
                borders, seconds, events = run(client, job, drained)
            kinds = capi.TRACE_DECODE, capi.TRACE_PUBLISH
            return {"seam": busy(borders, seams, workers), "middle": busy(borders, middles, workers),
                    "seam_idle": idle_ms(events, seams, workers, kinds),
                    "middle_idle": idle_ms(events, middles, workers, kinds),
                    RATE: EPOCHS * BATCHES * size / seconds}

        results = common.interleave({"pipelined": lambda _: part(False), "drained": lambda _: part(True)},
                                    1 if options.quick else 5, lambda text: print(text, file=sys.stderr))
    rows = [(f"{name}, {where}", {BUSY: common.column(found, where),
                                  IDLE: common.column(found, f"{where}_idle")} |
             ({RATE: common.column(found, RATE)} if where == "seam" else {}))
            for name, found in results.items() for where in ("seam", "middle")]
    figures = {f"{prefix}{where}_busy": statistics.median(common.column(results[name], where))
               for name, prefix in (("pipelined", ""), ("drained", "drained_"))
               for where in ("seam", "middle")}
    figures |= {f"{prefix}{where}_idle_ms": statistics.median(common.column(results[name], f"{where}_idle"))
                for name, prefix in (("pipelined", ""), ("drained", "drained_")) for where in ("seam", "middle")}
    note = f"{EPOCHS} epochs of {BATCHES} batches of {size}, {workers} workers"
    return common.Report(rows, figures, [note], ("share of the workers' time", {
        name: cells[BUSY] for name, cells in rows}))
