"""Scheduling, simulated: the daemon's own scheduler against other loaders, 1 to 64 workers, wrong predictions.

A discrete-event simulation (tests/schedule/simulation.h) of workers, memory and a consumer that takes a batch of
16 at 95 percent of what the workers can do, so 0.95 of the ideal is the most that any loader can reach. Ours is
the scheduler, the admission and the sample slots that the daemon runs, with a ring of 3 batches; `error` is the
standard deviation of log(predicted / actual). Rivals: batches made whole by one worker each with 2 batches of
prefetch a worker (in order and unordered), samples first come, strict order first in first out, and the simple
rule (least due - predicted cost, no error considered), each with memory for as many batches as ours.

`whole run`: 6,400 samples from an empty start to the end. `steady`: a long run, its first quarter and last eighth
left out, as in an epoch after another.

Caveats: reads take no time, workers are equal and alone on their cores, the mean cost is known, and predictions
err independently of each other.
"""

import json
import statistics
import subprocess

import common

TARGETS = ["sl_bench_schedule_sim"]
SHARE, STEADY, BUFFER = "whole run", "steady", "batches"
RARE = {"set": "rare"}
SETS = [
    ("1 percent cost 100 times more, 2 workers", {**RARE, "workers": 2}),
    ("1 percent cost 100 times more, 8 workers", {**RARE, "workers": 8}),
    ("1 percent cost 100 times more, 32 workers", {**RARE, "workers": 32}),
    ("20 percent cost 20 times more, 8 workers", {**RARE, "share": 0.2, "factor": 20, "workers": 8}),
    ("lognormal, variation 1, 8 workers", {"set": "lognormal", "workers": 8}),
    ("near constant, 8 workers", {"set": "constant", "workers": 8}),
]


def slots(workers):
    """Sample slots of a stream of batch 16, as the daemon lays them out."""
    return {"ring": 3, "light": max(24, 2 * workers), "medium": 8, "heavy": max(12, 2 * workers), "reserve": 16}


def loaders(workers):
    window = 5 if workers < 32 else 8
    rival = {"window": window, "horizon": 40 if workers < 32 else 100}
    ours = slots(workers)
    return {
        "classic in order": {"loader": "classic_in_order"},
        "classic unordered": {"loader": "classic_unordered"},
        "samples, first come": {"loader": "first_come", "window": window},
        "strict, first in first out": {"loader": "fifo", "window": window},
        "strict, simple rule": {"loader": "simple", **rival},
        "the same, error 0.4": {"loader": "simple", "error": 0.4, **rival},
        "strict, ours": ours,
        "ours, error 0.4": {"error": 0.4, **ours},
        "ours, error 0.8": {"error": 0.8, **ours},
        "ready, ours": {"ready": 1, **ours},
    }


def simulate(experiments, seeds):
    """[[result of a seed]] of each experiment, in one call of the program."""
    found = ask([" ".join(f"{key}={value}" for key, value in {**words, "seed": seed}.items())
                 for words in experiments for seed in range(1, seeds + 1)])
    return [found[at:at + seeds] for at in range(0, len(found), seeds)]


def ask(lines):
    """The program's answer to each line."""
    done = subprocess.run([common.BUILD / "bin" / "sl_bench_schedule_sim"], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise common.BenchError(done.stderr.strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(seeds, long):
    """{(set, loader): cells}."""
    keys, whole, steady = [], [], []
    for title, words in SETS:
        for name, loader in loaders(words["workers"]).items():
            keys.append((title, name))
            whole.append({**words, **loader})
            steady.append({**words, **loader, "samples": long, "steady": 1})
    runs, later = simulate(whole, seeds), simulate(steady, max(2, seeds // 2))
    return {key: {SHARE: common.column(run, "share"), STEADY: common.column(long_run, "share"),
                  BUFFER: common.column(run, "most_buffered")}
            for key, run, long_run in zip(keys, runs, later)}


def curve(points, seeds, long):
    """[(mean share, mean buffered batches)] of each experiment, steady."""
    runs = simulate([{**RARE, "samples": long, "steady": 1, **words} for words in points], seeds)
    return [(statistics.mean(common.column(run, "share")), statistics.mean(common.column(run, "mean_buffered")))
            for run in runs]


def curves(seeds, long):
    """Panels for the plot: (title, label of x, label of y, {line: (xs, ys)}, whether x is logarithmic)."""
    workers = [1, 2, 4, 8, 16, 32, 64]
    errors = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    horizons = [100, 200, 400, 800, 1600, 3200, 6400]
    factors = [1, 3, 10, 30, 100, 300]
    share, by_workers, by_error, by_tail = "share of ideal", {}, {}, {}
    for name in ("classic in order", "classic unordered", "strict, simple rule", "the same, error 0.4",
                 "strict, ours", "ours, error 0.4"):
        found = curve([{"workers": w, **loaders(w)[name]} for w in workers], seeds, long)
        by_workers[name] = (workers, [y for y, _ in found])
    for name in ("strict, simple rule", "strict, ours"):
        for count in (8, 32):
            found = curve([{"workers": count, **loaders(count)[name], "error": e} for e in errors], seeds, long)
            by_error[f"{name}, {count} workers"] = (errors, [y for y, _ in found])
    horizon, buffered = {}, {}
    for count in (2, 8, 32):
        found = curve([{"workers": count, "error": 0.4, **slots(count), "horizon": h} for h in horizons], seeds, long)
        horizon[f"{count} workers"] = (horizons, [y for y, _ in found])
        buffered[f"{count} workers"] = (horizons, [y for _, y in found])
    for name in ("classic in order", "classic unordered", "samples, first come", "strict, ours"):
        found = curve([{"workers": 8, **loaders(8)[name], "factor": f} for f in factors], seeds, long)
        by_tail[name] = (factors, [y for y, _ in found])
    return [("workers", "workers", share, by_workers, True),
            ("error of prediction", "standard deviation of log(predicted / actual)", share, by_error, False),
            ("weight of the tail, 8 workers", "cost of the rare 1 percent", share, by_tail, True),
            ("horizon, error 0.4", "samples foreseen", share, horizon, True),
            ("memory, error 0.4", "samples foreseen", "batches buffered, mean", buffered, True)]


def measure(options):
    seeds, long = (2, 12_000) if options.quick else (6, 48_000)
    cells = table(seeds, long)
    rows = [(f"{title}: {name}", found) for (title, name), found in cells.items()]

    def mean(number, name, what=SHARE):
        return statistics.mean(cells[SETS[number][0], name][what])

    figures = {f"pick_ns_{waiting}": statistics.median(common.column(ask([f"picks {waiting}"] * 5), "pick_ns"))
               for waiting in (20, 300)}
    for number, workers in ((0, 2), (1, 8), (2, 32)):
        for key, name in (("strict", "strict, ours"), ("strict_error04", "ours, error 0.4"), ("any", "ready, ours"),
                          ("in_order", "classic in order"), ("simple", "strict, simple rule"),
                          ("simple_error04", "the same, error 0.4")):
            figures[f"rare_tail_w{workers}_{key}"] = mean(number, name)
            figures[f"rare_tail_w{workers}_{key}_steady"] = mean(number, name, STEADY)
        figures[f"rare_tail_w{workers}_batches"] = max(cells[SETS[number][0], "strict, ours"][BUFFER])
    notes = [f"{seeds} seeds; a pick, its end and an addition take {figures['pick_ns_20']:.0f} ns with 20 samples "
             f"waiting in each lane of two streams, {figures['pick_ns_300']:.0f} ns with 300"]
    return common.Report(rows, figures, notes, curves=curves(2 if options.quick else 3, long))
