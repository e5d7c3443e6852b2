"""What Python costs: a ready batch against C, and the time to the first batch against torch's loader.

Hand-over: a daemon runs; a program in C (bench/python/take_ready.c) and one in Python (take_ready.py) open
the same stream, batches of 64 x 3 x 224 x 224 float32. Each waits until all slots of its ring are filled and
the daemon rests, then times taking, looking at and letting go of all batches, ring after ring: only the
hand-over is timed, never decoding. A round runs both programs, Python's with these ways to look:

  tensor       batch["image"]
  numpy        batch.numpy("image", "label")
  copy         batch.numpy("image", "label", copy=True), for scale: 38.5 MB into fresh memory
  from_dlpack  torch.from_dlpack(batch["image"])
  torch        batch.torch("image", "label"), the loop that the package's documentation shows: extra_us
  torch_fault  the same with one page fault while the batch is held, as any training step has (the fault
               itself costs a few us): then the release looks for written pages

`new us` is the median batch of a way's first ring, `us` that of all later ones, `rested us` the first batch
of each of those, `CPU us` a ring's mean, for the own thread; `more` is `us` less C's in the same round.
Figures are medians over the rounds. `new us` of from_dlpack is what the first export of a slot costs, once
per slot and stream: the slot is made writable (docs/decisions/0007-writes-are-private.md).

First batch: from the construction of `sl.Loader` to the first batch of 2,000 photographs, imports done
before; beside it ImageFolder and DataLoader of torchvision and torch, with as many workers. Each time in a
process of its own, and ours with a daemon that runs but has never seen the folder.

Caveats: the first batch of a ring finds cold caches, as after a training step, and giving it back wakes the
daemon, whose workers then want the processors too. The median over batches leaves that out; `rested us` and
`CPU us` do not. Nothing touches the pixels. The clock's own cost (0.1 us in Python) is inside. Torch decodes
with Pillow, as most jobs do; ours is profile pillow, which gives the same bytes. Virtual cores are shared
with strangers: trust differences within one run only.

The environment is the one of ./test.sh, made if it is not there (some GB the first time); --python names
another. Where torch is missing from it, its figures are left out.
"""

import contextlib
import functools
import json
import statistics
import sys
import tempfile

import common
from python.environment import (  # add_arguments and cmake_settings: bench/run asks this module for them
    add_arguments, cmake_settings, find_python, run_json, running_daemon, versions)

TARGETS = ["speedyloaderd", "speedyloader-worker", "sl_make_photos", "sl_bench_take_ready",
           "speedyloader_python"]
HELPERS = common.ROOT / "bench" / "python"
WORKERS = 2  # of the daemon and of torch
SLOTS = 8
US = "us"
NEW = "new us"
RESTED = "rested us"
CPU = "CPU us"
MORE = "more"
FIRST = "first batch s"
WAYS = ("tensor", "numpy", "copy", "from_dlpack", "torch", "torch_fault")

SPEC = {"pipeline": [{"op": "decode", "channels": 3},
                     {"op": "random_resized_crop", "size": [224, 224]},
                     {"op": "random_horizontal_flip", "p": 0.5},
                     {"op": "normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}],
        "batch": {"size": 64, "last": "drop"},
        "epochs": 1_000_000}


def in_c(daemon, spec, rings, _round):
    return {"C": run_json(common.BUILD / "bin" / "sl_bench_take_ready", daemon, spec, SLOTS, rings)}


def in_python(python, daemon, spec, rings, _round):
    return run_json(python, "-B", HELPERS / "take_ready.py", daemon, spec, SLOTS, rings)


def first_batch(python, which, folder, _round):
    with running_daemon(WORKERS) if which == "ours" else contextlib.nullcontext("-") as daemon:
        line = run_json(python, "-B", HELPERS / "first_batch.py", which, folder, WORKERS, daemon)
    return line["first_batch_s"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_all(python, has_torch, options):
    """{part: [result, one per round]}."""
    folder = common.make_photos(2000)
    rounds, rings = (2, 3) if options.quick else (7, 7)
    with running_daemon(WORKERS) as daemon, tempfile.NamedTemporaryFile("w", suffix=".json") as spec:
        json.dump({**SPEC, "dataset": {"kind": "image_folder", "path": str(folder)}}, spec)
        spec.flush()
        parts = {"C": functools.partial(in_c, daemon, spec.name, rings),
                 "Python": functools.partial(in_python, python, daemon, spec.name, rings),
                 "ours": functools.partial(first_batch, python, "ours", folder)}
        if has_torch:
            parts["torch"] = functools.partial(first_batch, python, "torch", folder)
        return common.interleave(parts, rounds, say)


def summary(times):
    """One round of one way, as the columns of the table."""
    new, *rings = times["wall_us"]
    return {US: statistics.median(us for ring in rings for us in ring),
            RESTED: statistics.median(ring[0] for ring in rings),
            NEW: statistics.median(new),
            CPU: statistics.median(times["cpu_us"][1:])}


def handover_rows(results):
    """Table rows of C and of Python's ways, a value a round."""
    rounds = [{way: summary(times) for way, times in {**c, **python}.items()}
              for c, python in zip(results["C"], results["Python"])]
    rows = {way: {title: [numbers[way][title] for numbers in rounds] for title in rounds[0][way]}
            for way in ("C", *WAYS) if way in rounds[0]}
    for way, row in rows.items():
        if way != "C":
            row[MORE] = [us - c for us, c in zip(row[US], rows["C"][US])]
    return rows


def handover_figures(rows):
    """The figures of every way, and the one that acceptance reads where torch is there."""
    figures = {"extra_us": statistics.median(rows["torch"][MORE])} if "torch" in rows else {}
    for way, row in rows.items():
        middle = {title: statistics.median(values) for title, values in row.items()}
        if MORE in middle:
            figures[f"extra_{way}_us"] = middle[MORE]
        figures |= {f"{way} {title}".lower().replace(" ", "_"): value for title, value in middle.items()
                    if title != MORE}
    return figures


def measure(options):
    python = find_python(options)
    found = versions(python)
    has_torch = "torch" in found and "torchvision" in found
    notes = ["with " + ", ".join(f"{name} {version}" for name, version in found.items())]
    results = run_all(python, has_torch, options)
    rows = handover_rows(results)
    missing = [way for way in WAYS if way not in rows] + ([] if has_torch else ["torch's first batch"])
    if missing:
        notes.append(f"left out, because {python} lacks what they need: {', '.join(missing)}")
    bars = {way: row[MORE] for way, row in rows.items() if way not in ("C", "copy")}
    figures = handover_figures(rows)
    if "extra_us" in figures:
        notes.append("a ready batch costs {extra_us:.1f} us more in Python than in C".format(**figures))
    for part, key in (("ours", "first_batch_s"), ("torch", "torch_first_batch_s")):
        if part in results:
            rows[f"{part}, from the start"] = {FIRST: results[part]}
            figures[key] = statistics.median(results[part])
    return common.Report(list(rows.items()), figures, notes, ("microseconds a batch more than C", bars))
