"""How every loader of bench/tail.py and bench/dropin_tail.py is driven: the same consumer with a fixed step, the same clock.

A script builds its loader and calls `serve(batches, after)`. The process then lives until
its stdin closes. For each line of stdin, {"batches": N, "step_s": S, "memory": bool}, it takes N batches and
prints one JSON line {"seconds", "cpu_s", "others_cores", "waits_ms", "pss_mb", ...}. Between two lines
nothing is taken, so a loader that waits for its turn costs nothing once its buffers are full.

The step stands for a GPU's: time passes and no CPU is used. A wait is counted from the moment the consumer
asks to the batch in hand. A sleep that ends late is no fault of a loader, so the next step is shorter by it.
CPU is that of this process and all its descendants since the line before, so the refilling of buffers
between two lines is counted with the batches that it replaces. Failure: the loader's own error ends the
process.
"""

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))

from timing import tree, tree_cpu_seconds  # noqa: E402  (the folder of peers must be on the path first)


def tree_pss_bytes():
    """Memory of this process and its descendants, shared pages divided among those who map them."""
    total = 0
    for pid in tree():
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        except OSError:
            continue  # ended meanwhile, or may not be looked into
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def machine_cpu_seconds():
    """What all programs have used, and what the machine's other guests were given instead of this one."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft, stolen = (int(field) for field in fields[:8])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def take(batches, count, step, after):
    """Takes `count` batches, `step` seconds apart (0: at once): (seconds, the last step included; waits)."""
    waits = []
    begin = due = time.perf_counter()
    for _ in range(count):
        time.sleep(max(0.0, due - time.perf_counter()))
        asked = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - asked)
        due += waits[-1] + step
        after(batch)
        del batch
    time.sleep(max(0.0, due - time.perf_counter()))
    return due - begin, waits


def serve(batches, after=lambda batch: None, collect=dict):
    """`batches`: an iterator without an end; `after` is called in the step of each batch; `collect()` gives
    what else is to be told about the batches since it was called last."""
    print(json.dumps({"ready": True}), flush=True)
    before = tree_cpu_seconds()
    for line in sys.stdin:
        order = json.loads(line)
        own_begin, machine_begin = tree_cpu_seconds(), machine_cpu_seconds()
        seconds, waits = take(batches, order["batches"], order["step_s"], after)
        now, machine_now = tree_cpu_seconds(), machine_cpu_seconds()
        told = {"seconds": seconds, "cpu_s": now - before,
                "others_cores": max(0.0, machine_now - machine_begin - (now - own_begin)) / seconds,
                "waits_ms": [1000 * wait for wait in waits]}
        before = now
        if order.get("memory"):
            told["pss_mb"] = tree_pss_bytes() / 1e6
        print(json.dumps(told | collect()), flush=True)
