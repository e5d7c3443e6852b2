"""How the peers of the benchmarks are timed, each the same way. Imported by the scripts here and in ../paced."""

import json
import os
import pathlib
import time


def tree():
    """{pid: ticks of user + system time, those of waited-for children included} of this process and its
    living descendants."""
    parents, ticks = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    found = {}
    for pid in parents:
        above = pid
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        if above:
            found[pid] = ticks[pid]
    return found


def tree_cpu_seconds():
    """User + system time of this process, its living descendants and those it has waited for."""
    return sum(tree().values()) / os.sysconf("SC_CLK_TCK")


def measure(batches):
    """Counts from the first batch on; `batches()` builds the loader and yields each batch's sample count."""
    start = time.monotonic()
    samples, first, last, cpu = 0, None, None, 0.0
    for count in batches():
        last = time.monotonic()  # the end of the last batch, not of the loader's workers
        if first is None:
            first, cpu = last, tree_cpu_seconds()
        else:
            samples += count
    cpu = tree_cpu_seconds() - cpu
    print(json.dumps({"sps": samples / (last - first), "cpu_s_per_1k": 1000 * cpu / samples,
                      "first_batch_s": first - start, "samples": samples}))
