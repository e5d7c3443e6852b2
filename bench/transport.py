"""From a guest worker to the training loop: what a batch costs on its way, beside torch's DataLoader.

A data set that returns memory it has already got, under speedyloader.torch.DataLoader and torch's own, with
one worker (--workers): batches of 64 x 3 x 224 x 224 float32 (38.5 MB) that nobody has to compute.

  images  single images, batches of 64 by the default collate: what an image job pays
  fresh   the whole batch as one item, a new tensor each time (batch_size=None)
  batch   the same, always the same tensor. torch hands over a descriptor of that one piece of shared memory and
          copies nothing, which is of use only to a data set whose items never change; ours copies

The consumer takes batches as fast as they come and reads one number of each page, as it would have to. A round
runs each loader in a process of its own with all three; rounds are interleaved. `CPU us` is user and system time
of the whole process tree (consumer, workers, daemon) by batch, `wait` from asking to the batch in hand.

Figures: ours_cpu_us, torch_cpu_us and ratio_cpu (torch's by ours) of single images; the same with batch_ and
fresh_ for the others, and _batches_s, _p50_ms, _p99_ms. Caveats: CPU time has the kernel's resolution of 10 ms,
so more batches are counted where they are cheap; the time to make a fresh tensor (about a copy) is inside.
"""

import functools
import statistics

import common
from python.environment import (  # cmake_settings: bench/run asks this module for it
    add_arguments as add_python, cmake_settings, find_python, run_json, versions)
from tail import percentile, say

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "speedyloader_python"]
SCRIPT = common.ROOT / "bench" / "dropin" / "hand_over.py"
LOADERS = ("ours", "torch")
WAYS = {"images": "", "fresh": "fresh_", "batch": "batch_"}  # way: what its figures begin with
CPU, RATE, P50, P99 = "CPU us", "batches/s", "wait p50 ms", "p99 ms"
FIGURES = {"cpu_us": CPU, "batches_s": RATE, "p50_ms": P50, "p99_ms": P99}


def add_arguments(parser):
    add_python(parser)
    parser.add_argument("--workers", type=int, default=1, help="default: 1")
    parser.add_argument("--rounds", type=int, help="default: 7; --quick: 2")


def run(python, loader, workers, scale, _round):
    return run_json(python, "-B", SCRIPT, loader, workers, scale)


def cells(told):
    """Columns of one loader and way, a value a round."""
    waits = common.column(told, "waits_ms")
    return {RATE: common.column(told, "batches_s"), CPU: common.column(told, "cpu_us"),
            P50: [percentile(one, 0.5) for one in waits], P99: [percentile(one, 0.99) for one in waits]}


def figures_of(results):
    found = {}
    for way, begin in WAYS.items():
        columns = {loader: cells([one[way] for one in told]) for loader, told in results.items()}
        for loader, values in columns.items():
            found |= {f"{loader}_{begin}{what}": statistics.median(values[column])
                      for what, column in FIGURES.items()}
        found[f"{begin}ratio_cpu"] = statistics.median(
            theirs / ours for ours, theirs in zip(columns["ours"][CPU], columns["torch"][CPU]))
    return found


def measure(options):
    python = find_python(options)
    notes = ["with " + ", ".join(f"{name} {version}" for name, version in versions(python).items())]
    rounds = options.rounds or (2 if options.quick else 7)
    scale = 0.5 if options.quick else 2
    parts = {loader: functools.partial(run, python, loader, options.workers, scale) for loader in LOADERS}
    results = common.interleave(parts, rounds, say)
    rows = [(f"{way}, {loader}", cells([one[way] for one in results[loader]]))
            for way in WAYS for loader in LOADERS]
    figures = figures_of(results)
    notes.append(f"single images: torch's loader takes {figures['ratio_cpu']:.1f} times as much CPU a batch")
    return common.Report(rows, figures, notes, ("CPU us a batch", {name: line[CPU] for name, line in rows}))
