"""take_ready.py SOCKET SPEC.json SLOTS RINGS: what Python pays for a batch that lies ready.

Called by bench/python_overhead.py, beside take_ready.c, which does the same steps in C. For each way to look
at a batch, RINGS times: waits until every slot of the ring is filled and the daemon rests, then takes all
batches with a `for` loop, looks, and lets go. Ways that export DLPack come last, because a slot stays
writable once it was exported. Prints one JSON line: {way: {"wall_us": [[one per batch], one list per ring],
"cpu_us": [this thread's mean, one per ring]}}. A way whose framework is not installed is left out. Fails with
the package's own error.
"""

import importlib.util
import itertools
import json
import mmap
import pathlib
import sys
import time

import speedyloader as sl

PATIENCE_S = 60  # for one ring to fill
REST_S = 0.05  # without a sample decoded: the workers have nothing to do


def fault():
    """One page fault, of which a training step has many."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page[0] = 1


def ways():
    """{way: function of a batch}, with the frameworks imported before anything is timed."""
    found = {"tensor": lambda batch: batch["image"]}
    if importlib.util.find_spec("numpy"):
        import numpy  # noqa: F401  (numpy() would import it while the clock runs)

        found["numpy"] = lambda batch: batch.numpy("image", "label")
        found["copy"] = lambda batch: batch.numpy("image", "label", copy=True)
    if importlib.util.find_spec("torch"):
        import torch

        found["from_dlpack"] = lambda batch: torch.from_dlpack(batch["image"])
        found["torch"] = lambda batch: batch.torch("image", "label")
        found["torch_fault"] = lambda batch: (batch.torch("image", "label"), fault())
    return found


def wait_for_ring(loader, slots):
    """Sleeps until every slot is filled and nothing has been decoded ahead for a while: then the daemon
    rests, and a whole ring of batches is there unless an epoch ends in it."""
    until = time.monotonic() + PATIENCE_S
    decoded, stats = -1, loader.stats()
    while stats["ready"] < slots or stats["decode_s"] != decoded:
        if time.monotonic() > until:
            sys.exit(f"take_ready.py: the ring did not fill within {PATIENCE_S} s")
        decoded = stats["decode_s"]
        time.sleep(REST_S)
        stats = loader.stats()


def take(epoch, look, count):
    """`count` batches of an epoch: nanoseconds of each, and of this thread's CPU time for all."""
    stamps = [time.perf_counter_ns()]
    cpu = time.thread_time_ns()
    for batch in itertools.islice(epoch, count):
        view = look(batch)
        del view, batch  # the slot goes back here, as in C, not when the next batch has been taken
        stamps.append(time.perf_counter_ns())
    cpu = time.thread_time_ns() - cpu
    return [after - before for before, after in itertools.pairwise(stamps)], cpu


def full_rings(loader, slots):
    """The epoch to take from, each time a ring is full; what does not fill a ring at an epoch's end is taken
    between, without a look."""
    while True:
        epoch = iter(loader)
        for _ in range(len(loader) // slots):
            wait_for_ring(loader, slots)
            yield epoch
        wait_for_ring(loader, slots)
        for batch in epoch:
            del batch


def main():
    socket, spec, slots, rings = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    looks = ways()
    results = {way: {"wall_us": [], "cpu_us": []} for way in looks}
    loader = sl.Loader.from_spec(json.loads(spec.read_text()), slots=slots, socket=socket, timeout=0)
    for way, epoch in zip([way for way in looks for _ in range(rings)], full_rings(loader, slots)):
        walls, cpu = take(epoch, looks[way], slots)
        results[way]["wall_us"].append([wall / 1e3 for wall in walls])
        results[way]["cpu_us"].append(cpu / 1e3 / len(walls))
    if loader.stats()["copied"]:
        sys.exit("take_ready.py: the loader gave copies, so zero-copy was not measured")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
