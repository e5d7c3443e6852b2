"""What samples will cost: how far predictions are off, in the first epoch and once samples are known.

Sets: photographs of sl_make_photos, and the same photographs as baseline and progressive JPEG, grey JPEG,
PNG, WebP, TIFF and GIF (mixed). Task: random-resized-crop to 224, flip. A fresh daemon without a cache runs
one epoch (first epoch: nothing is known but a file's size and its name, and what its header shows just before
its turn), the same epoch again (the same samples with the same draws: how far the second decode's CPU time is
from the first is the noise floor), and two epochs with other draws (warm). Errors are mean absolute
percentage errors of predicted to actual CPU time of the worker; a stream's first 200 samples count only as
`start`. Beside that, what one prediction and one observation take on the conductor's thread.

Caveats: CPU time is noisy where cores are shared or change their clock, so compare with the noise floor of
the same run (`..._over_floor` is the difference): no prediction of a single decode can be much better.
"""

import json
import os
import statistics
import sys

import common

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos", "sl_bench_prediction"]
PARTS = ("start", "first_epoch", "warm", "noise_floor")


def tools():
    """The daemons and the C API of the tests, over the build tree that is measured."""
    os.environ["SL_BUILD_DIR"] = str(common.BUILD)
    sys.path.insert(0, str(common.ROOT / "tests"))
    from support import capi, daemon, specs
    return capi, daemon, specs


def make_mixed(photos, count):
    """A folder of `count` photographs in seven codings, made if it is not there."""
    from PIL import Image

    def save(picture, path, number):
        rgb = picture.convert("RGB")
        match number % 7:
            case 0:
                rgb.save(f"{path}.jpg", quality=85)
            case 1:
                rgb.save(f"{path}.jpg", quality=85, progressive=True)
            case 2:
                rgb.convert("L").save(f"{path}.jpg", quality=75)
            case 3:
                rgb.save(f"{path}.png")
            case 4:
                rgb.save(f"{path}.webp", quality=80)
            case 5:
                rgb.save(f"{path}.tif", compression="tiff_lzw")
            case 6:
                rgb.quantize(64).save(f"{path}.gif")

    folder = common.DATA / f"codings-{count}"
    if (folder / "made").exists():
        return folder
    (folder / "all").mkdir(parents=True, exist_ok=True)
    for number, source in enumerate(sorted(photos.rglob("*.jpg"))[:count]):
        with Image.open(source) as picture:
            save(picture, folder / "all" / f"{number:05}", number)
    (folder / "made").touch()
    return folder


def run(client, job):
    """A stream to its end: what its report says of predictions, and {(epoch, sample id): microseconds}."""
    stream = client.open(job)
    costs = {}
    for batch in stream.batches():
        epoch, _, _ = batch.place()
        costs.update({(epoch, row.sample_id): row.actual_us for row in batch.samples() if row.valid})
    report = stream.report()["stats"]["prediction"]
    stream.close()
    return report, costs


def measure_set(daemons, capi, specs, folder):
    """One fresh daemon over one set; {part: mean absolute percentage error} and more."""
    daemon = daemons.start("--log-level", "warn", workers=os.cpu_count(), memory="2GiB",
                           env={"XDG_CACHE_HOME": daemons.folder / f"cache{len(daemons.daemons)}"})
    job = specs.spec(folder, size=(224, 224), batch=32, dtype="uint8", layout="NHWC", seed=1)
    with capi.Client(daemon.socket, "bench") as client:
        first, costs = run(client, job)
        _, again = run(client, job)
        warm, _ = run(client, {**job, "order": {**job["order"], "seed": 2}, "epochs": 2})
    daemon.stop()
    noise = statistics.fmean(abs(again[key] - costs[key]) / max(costs[key], 1) for key in costs)
    return {"start": first["start"]["mape"], "first_epoch": first["first_epoch"]["mape"],
            "warm": warm["warm"]["mape"], "noise_floor": noise,
            "bias": warm["warm"]["bias"], "class_errors": warm["warm"]["class_errors"],
            "rank": warm["rank_correlation"]}


def measure(options):
    capi, daemon, specs = tools()
    count = 700 if options.quick else 2000
    photos = common.make_photos(count)
    sets = {"photos": photos, "mixed": make_mixed(photos, count // 2)}
    with daemon.Daemons() as daemons:
        parts = {name: lambda _, folder=folder: measure_set(daemons, capi, specs, folder)
                 for name, folder in sets.items()}
        results = common.interleave(parts, 1 if options.quick else 3,
                                    lambda text: print(text, file=sys.stderr))
    rows = [(name, {key: common.column(found, key) for key in found[0]}) for name, found in results.items()]
    figures = {}
    for name, found in results.items():
        floor = figures[f"{name}_noise_floor"] = statistics.median(common.column(found, "noise_floor"))
        for part in ("start", "first_epoch", "warm"):
            mape = figures[f"{name}_mape_{part}"] = statistics.median(common.column(found, part))
            figures[f"{name}_mape_{part}_over_floor"] = mape - floor
    figures |= {name: figures[f"photos_{name}"] for name in ("mape_first_epoch", "mape_warm", "noise_floor")}
    figures |= json.loads(common.run_program([common.BUILD / "bin" / "sl_bench_prediction"]).stdout)
    note = f"{count} photographs, {count // 2} mixed; {os.cpu_count()} workers"
    plot = {f"{name}, {part}": common.column(found, part)
            for name, found in results.items() for part in PARTS}
    return common.Report(rows, figures, [note], ("mean absolute percentage error / 100", plot))
