"""Any PyTorch data set, unchanged: speedyloader.torch.DataLoader and torch's own, where some items cost more.

Four map-style data sets (bench/dropin/sets.py), torch's default collate, the same object for all loaders:

  a  photographs, one in 100 a progressive JPEG of 24 megapixels, about 100 times the work; decoded by
     torchvision.io, random-resized-crop to 224, flip, normalise; batches of 16
  b  speech features in NumPy: 80 percent of the items 1 unit of work, 20 percent 6 or 20; batches of 16
  c  volumes of KiTS19's spread of sizes, random balanced crop 64^3, flips, brightness, noise, in NumPy;
     batches of 4. What an item costs depends on its size and on a draw that nobody can know beforehand
  d  photographs of one size: nothing can be won here, and nothing must be lost

  ours_strict, ours_ready          speedyloader.torch.DataLoader, order="strict" and "ready"
  torch_in_order, torch_unordered  torch.utils.data.DataLoader, persistent workers, prefetch of 2 batches each

As in bench/tail.py each loader is held against its own ideal, min(workers, cores) / (CPU seconds an item of
its whole process tree, daemon included), its consumer takes a batch at 95 percent of that, and a round is for
each loader an epoch that is not counted and one that is. Rounds interleave the loaders. Nobody is told what
items cost but by the data set's `paths` (a, c, d), whose sizes ours looks at; the rest it learns from the
epochs before.

Figures: NAME_s_SET_wN seconds of the counted epoch, NAME_share_... of its ideal, NAME_p99_ms_... of the waits
of all rounds, NAME_cpu_per_1k_...; strict_vs_OTHER_SET_wN how many times longer the other's epoch took
(median over the rounds), and strict_share_vs_OTHER_... the same of shares, which leaves out what a loader's
own work costs. Without the set's letter: set a.

By default everything, about half an hour on two cores; --quick: a part of a and of d with two workers.
Caveats: four loaders stay in memory while one of them runs. With more workers than cores the ideal is that of
the cores. The consumer's step sleeps, so a loader has all cores during it, as with a GPU.
"""

import statistics

import common
from paced.driver import Group, Task
from python.environment import (  # cmake_settings: bench/run asks this module for it
    add_arguments as add_python, cmake_settings, find_python, run_json, versions)
from tail import SHARE, make_set, names_of, pooled_p99, row, say, strangers

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos", "speedyloader_python"]
HELPERS = common.ROOT / "bench" / "dropin"
SCRIPT = str(HELPERS / "loader.py")
# Of each kind the first that takes part measures what an item costs.
LOADERS = {
    "ours_ready": ("ours", SCRIPT, ["ours", "ready"]),
    "ours_strict": ("ours", SCRIPT, ["ours", "strict"]),
    "torch_unordered": ("torch", SCRIPT, ["torch", "unordered"]),
    "torch_in_order": ("torch", SCRIPT, ["torch", "in_order"]),
}
# set: (items, of a quick run, batch, items whose cost is measured)
SETS = {"a": (2000, 320, 16, 100), "b": (600, 320, 16, 100), "c": (384, 96, 4, 48), "d": (1000, 160, 16, 50)}
QUICK = ["a", "d"]
VOLUMES, QUICK_VOLUMES = 48, 16
SECONDS = "epoch s"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def add_arguments(parser):
    add_python(parser)
    parser.add_argument("--sets", type=names_of(SETS), help="which of a,b,c,d (default: all; --quick: a,d)")
    parser.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")],
                        help="numbers of workers (default: 2,4; --quick: 2)")
    parser.add_argument("--loaders", type=names_of(LOADERS), help="default: all")
    parser.add_argument("--rounds", type=int, help="default: 5; --quick: 1")


def place_of(name, python, options):
    """Where a set lies, made if it is not there: what sets.make wants to know."""
    count = SETS[name][1 if options.quick else 0]
    if name in ("a", "d"):
        return make_set(name.upper(), count)
    if name == "b":
        return "-"
    volumes = QUICK_VOLUMES if options.quick else VOLUMES
    folder = common.DATA / f"volumes-{volumes}"
    common.run_program([python, "-B", HELPERS / "volumes.py", folder, volumes], environment=ONE_THREAD)
    return folder


def describe(name, told):
    """What the items of a set cost, in words."""
    ratio = told["heavy_ratio"]
    return (f"{name}: {told['cost_ms']:.1f} ms an item, coefficient of variation {told['variation']:.2f}"
            + (f", a heavy one costs {ratio:.0f} times the others" if ratio else ""))


def figures_of(name, workers, results):
    """The figures of one set with one number of workers."""
    ending = f"_{name}_w{workers}"
    found = {}
    for loader, told in results.items():
        found |= {f"{loader}_s{ending}": statistics.median(common.column(told, "seconds")),
                  f"{loader}_share{ending}": statistics.median(common.column(told, "share")),
                  f"{loader}_p99_ms{ending}": pooled_p99(told, False),
                  f"{loader}_cpu_per_1k{ending}": statistics.median(common.column(told, "cpu_per_1k"))}
    strict = results.get("ours_strict", [])
    for loader, told in results.items():
        if strict and loader != "ours_strict":
            found[f"strict_vs_{loader}{ending}"] = statistics.median(
                other["seconds"] / ours["seconds"] for ours, other in zip(strict, told))
            found[f"strict_share_vs_{loader}{ending}"] = statistics.median(
                ours["share"] / other["share"] for ours, other in zip(strict, told))
    if name == "a":
        found |= {key.replace("_a_w", "_w"): value for key, value in found.items()}
    return found


def measure_group(prefix, names, python, task, rounds):
    """{name: [told, one a round]}"""
    say(f"{prefix}: starting {', '.join(names)}")
    group = Group(names, LOADERS, {"ours": python, "torch": python}, task)
    try:
        told = [group.round(number, lambda text: say(f"{prefix} {text}")) for number in range(rounds)]
    finally:
        group.close()
    return {name: [one[name] for one in told] for name in names}


def lost_guests(prefix, results):
    """A note, in a list, if a guest died meanwhile: then other things were measured too."""
    lost = max((one.get("guests_lost", 0) for told in results.values() for one in told), default=0)
    return [f"{prefix}: {lost} guest workers died meanwhile"] if lost else []


def measure(options):
    python = find_python(options)
    found = versions(python)
    notes = ["with " + ", ".join(f"{name} {version}" for name, version in found.items())]
    rows, figures = [], {}
    names = [name for name in LOADERS if name in (options.loaders or LOADERS)]
    rounds = options.rounds or (1 if options.quick else 5)
    environment = ONE_THREAD | {"PYTHONPATH": str(common.BUILD / "python"), "PYTHONNOUSERSITE": "1"}
    for name in options.sets or (QUICK if options.quick else list(SETS)):
        whole, quick, batch, looked_at = SETS[name]
        count, place = quick if options.quick else whole, place_of(name, python, options)
        told = run_json(python, "-B", HELPERS / "costs.py", name, place, count,
                        looked_at // 4 if options.quick else looked_at)
        notes.append(describe(name, told))
        figures |= {f"cost_ms_{name}": told["cost_ms"], f"heavy_ratio_{name}": told["heavy_ratio"]}
        for workers in options.workers or ([2] if options.quick else [2, 4]):
            prefix = f"{name}_w{workers}"
            task = Task([name, place, count, batch, workers], workers, count // batch, batch, environment)
            results = measure_group(prefix, names, python, task, rounds)
            rows += [(f"{prefix} {loader}", {SECONDS: common.column(told, "seconds")} | row(told))
                     for loader, told in results.items()]
            figures |= figures_of(name, workers, results)
            notes += strangers(prefix, results) + lost_guests(prefix, results)
    return common.Report(rows, figures, notes, ("share of ideal throughput (0.95 is the most)",
                                                {name: cells[SHARE] for name, cells in rows}))
