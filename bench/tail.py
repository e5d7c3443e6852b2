"""A rare heavy sample, and who waits for it: strict order against ready order, torch and tf.data.

Task: JPEG files to float32 batches of 16 (random-resized-crop to 224, flip, normalise), from sets of 2,000
photographs (C: 1,000) that sl_make_photos --set makes; warm page cache.

  A  one in 100 is a progressive JPEG of 24 megapixels, about 100 times the work of the others
  B  sizes lognormal: the cost varies by about its mean        C  one in 5 costs about 20 times more
  D  all of one size, the cost nearly constant: nothing can be won here, and nothing must be lost

Each loader is held against its own ideal, so that a quicker decoder does not count as better scheduling: the
ideal is min(workers, cores) / (CPU seconds a sample of its whole process tree). The CPU time is taken, again
in every round, from an epoch of the loader's kind that is not the counted one (strict and ready share theirs,
and so do the two of torch). The consumer's step is 1 / 0.95 of the ideal time of a batch, so 0.95 is the most
a loader can reach. A round is for each loader an epoch that is not counted and one that is; then it pauses,
buffers full, until its turn comes again. Rounds interleave the loaders of one set and one number of workers.

  strict, ready   this project; one stream, so epochs follow each other without a pause
  fifo            strict with every cost predicted alike, so that samples start in the order of the plan
  torch_in_order, torch_unordered, torch_prefetch_4   DataLoader, persistent workers, torchvision.io + v2,
                  2 batches of prefetch a worker (the last: 4, in order); drains at an epoch's end
  tfdata, tfdata_any  deterministic and not, AUTOTUNE, map and batch fused; epochs follow without a pause

A wait is counted from the ask to the batch in hand. `buffer` is the most samples that were finished and not
taken, in batches, asked at every fifth; memory (PSS) is that of the whole tree. Figures A_w2_x_vs_y are
medians over the rounds of the ratio of x's share to y's; p99_vs is a ratio of milliseconds, p99_steps_vs of
waits in steps of each one's own; p99 is over the batches of all rounds. mape leaves out the first 200
samples.

By default the rivals run on set A only; all of it takes about 20 minutes on two cores, and the making of the
sets 2 more the first time. Caveats: a process of each loader stays and sleeps while others run. A consumer at
95 percent of two cores leaves strangers a tenth of a core: a note says what they used.
"""

import pathlib
import statistics
import sys

import common
from paced.driver import LOADERS, Group, Task

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos"]
DEFAULT = {"A": [name for name in LOADERS if name != "torch_prefetch_4"], "B": ["ready", "strict"],
           "C": ["ready", "strict"], "D": ["ready", "strict", "fifo"]}
COUNT = {"A": 2000, "B": 2000, "C": 1000, "D": 2000}
QUICK_COUNT = 320
BATCH = 16
QUICK = {"A": ["ready", "strict", "torch_in_order", "tfdata"], "D": ["ready", "strict"]}
SHARE, P50, P99, MOST, STEP = "share of ideal", "wait p50 ms", "p99 ms", "max ms", "step ms"
STRANGERS_MAY = 0.05  # cores
CPU, BUFFER, PSS, RESERVED = "CPU s per 1,000", "buffer batches", "PSS MB", "reserved MB"


def names_of(known):
    def parse(text):
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise ValueError(unknown)
        return names
    parse.__name__ = "list of " + ", ".join(known)
    return parse


def add_arguments(parser):
    parser.add_argument("--sets", type=names_of(DEFAULT), help="which of A,B,C,D (default: all)")
    parser.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")],
                        help="numbers of workers (default: 2,4; --quick: 2)")
    parser.add_argument("--loaders", type=names_of(LOADERS), help="for every set (default: see above)")
    parser.add_argument("--rounds", type=int, help="default: 5; --quick: 1")
    parser.add_argument("--venv", type=pathlib.Path, default=common.ROOT / ".venv",
                        help="virtual environment with torch, torchvision and TensorFlow (default: .venv)")


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def row(told):
    """Columns of a loader's line from its rounds."""
    cells = {SHARE: common.column(told, "share"),
             P50: [percentile(one["waits_ms"], 0.5) for one in told],
             P99: [percentile(one["waits_ms"], 0.99) for one in told],
             MOST: [max(one["waits_ms"]) for one in told],
             STEP: [1000 * one["step_s"] for one in told], CPU: common.column(told, "cpu_per_1k"),
             PSS: common.column(told, "pss_mb")}
    if "buffer_most" in told[0]:
        cells |= {BUFFER: common.column(told, "buffer_most"), RESERVED: common.column(told, "reserved_mb")}
    return cells


def pooled_p99(told, in_steps):
    return percentile([wait / (1000 * one["step_s"] if in_steps else 1) for one in told
                       for wait in one["waits_ms"]], 0.99)


def compare(prefix, results):
    """The figures of one group: strict against each other loader, where strict took part."""
    figures = {f"{prefix}_{name}_share": statistics.median(common.column(told, "share"))
               for name, told in results.items()}
    strict = results.get("strict")
    if strict is None:
        return figures
    figures |= {f"{prefix}_buffer_batches": max(common.column(strict, "buffer_most")),
                f"{prefix}_p99_ms": pooled_p99(strict, False),
                f"{prefix}_mape_warm": statistics.median(common.column(strict, "mape"))}
    for name, told in results.items():
        if name == "strict":
            continue
        figures[f"{prefix}_strict_vs_{name}"] = statistics.median(
            ours["share"] / other["share"] for ours, other in zip(strict, told))
        # A rival that never waits has a p99 of microseconds; a ratio to less than that says nothing.
        figures[f"{prefix}_p99_vs_{name}"] = pooled_p99(strict, False) / max(1e-3, pooled_p99(told, False))
        figures[f"{prefix}_p99_steps_vs_{name}"] = (pooled_p99(strict, True)
                                                    / max(1e-6, pooled_p99(told, True)))
    return figures


def make_set(name, count):
    """The folder of a set, made if it is not there; every file is read to warm the cache."""
    folder = common.DATA / f"tail-{name}-{count}"
    common.run_program([common.BUILD / "bin" / "sl_make_photos", folder, "--set", name, "--count", count],
                       timeout=1800)
    for path in folder.rglob("*.jpg"):
        path.read_bytes()
    return folder


def usable(options, wanted, notes):
    """The loaders that can run here, and the Python of each kind; a note for each one that cannot."""
    pythons = {"ours": sys.executable}
    for kind, modules in (("torch", ["torch", "torchvision"]), ("tensorflow", ["tensorflow"])):
        if not any(LOADERS[name][0] == kind for name in wanted):
            continue
        python = options.venv / "bin" / "python"
        try:
            # Not imported, for that takes each of them seconds.
            common.run_program([python, "-c", "import importlib.util, sys; "
                                "sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))", *modules])
            pythons[kind] = python
        except (OSError, common.BenchError):
            notes.append(f"{kind}: skipped, {python} does not find {' and '.join(modules)}")
    return [name for name in wanted if LOADERS[name][0] in pythons], pythons


def describe(prefix, results):
    """What the samples of a set turned out to cost, in words."""
    for told in results.values():
        if "variation" in told[0]:
            ratio = told[0]["heavy_ratio"]
            return (f"{prefix}: decode {statistics.median(common.column(told, 'cost_ms')):.2f} ms a sample, "
                    f"coefficient of variation {told[0]['variation']:.2f}"
                    + (f", a heavy one costs {ratio:.0f} times the others" if ratio else ""))
    return f"{prefix}: costs unknown, none of this project's loaders took part"


def strangers(prefix, results):
    """A note, in a list, if other programs had more of the cores than may be."""
    cores = statistics.median(one["others_cores"] for told in results.values() for one in told)
    if cores <= STRANGERS_MAY:
        return []
    return [f"{prefix}: other programs used {cores:.2f} cores meanwhile, so shares are too low"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure_group(prefix, names, pythons, folder, workers, rounds):
    """({name: [told, one a round]}, mape of the first epoch of strict or None)"""
    say(f"{prefix}: starting {', '.join(names)}")
    batches = len(list(folder.glob("*/*.jpg"))) // BATCH
    group = Group(names, LOADERS, pythons, Task([folder, workers], workers, batches, BATCH))
    try:
        told = [group.round(number, lambda text: say(f"{prefix} {text}")) for number in range(rounds)]
    finally:
        group.close()
    first = group.first.get("strict", {}).get("mape")
    return {name: [one[name] for one in told] for name in names}, first


def measure(options):
    notes, rows, figures, first, warm = [], [], {}, [], []
    default = QUICK if options.quick else DEFAULT
    rounds = options.rounds or (1 if options.quick else 5)
    sets = options.sets or list(default)
    wanted = {name: options.loaders or default.get(name, QUICK["D"]) for name in sets}
    known, pythons = usable(options, list(dict.fromkeys(sum(wanted.values(), []))), notes)
    folders = {name: make_set(name, QUICK_COUNT if options.quick else COUNT[name]) for name in sets}
    for name, folder in folders.items():
        for workers in options.workers or ([2] if options.quick else [2, 4]):
            prefix = f"{name}_w{workers}"
            names = [loader for loader in LOADERS if loader in wanted[name] and loader in known]
            results, mape = measure_group(prefix, names, pythons, folder, workers, rounds)
            rows += [(f"{prefix} {loader}", row(told)) for loader, told in results.items()]
            figures |= compare(prefix, results)
            notes += [describe(prefix, results), *strangers(prefix, results)]
            if mape is not None:
                first.append(mape)
                warm.append(figures[f"{prefix}_mape_warm"])
    if first:
        figures |= {"mape_first_epoch": statistics.fmean(first), "mape_warm": statistics.fmean(warm)}
    return common.Report(rows, figures, notes, ("share of ideal throughput (0.95 is the most)",
                                                {name: cells[SHARE] for name, cells in rows}))
