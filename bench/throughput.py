"""JPEG files to normalised float32 batches: SpeedyLoader against what its libraries allow.

Task: photographs of about 500 x 375 and 65 kB (tests/makers), random-resized-crop to 224, flip, normalise,
float32 NCHW, batches of 64; as many workers or processes as cores; warm page cache. Every round runs all
parts one after the other, each round starting with another, and a figure is the median over the rounds.

  limit region  libjpeg-turbo region decode + libyuv + normalise, from memory (bench/jpeg_limit.cpp)
  limit fast    the same with reduction inside the inverse DCT
  fast, pillow  this project through `speedyctl run`: files, plan, workers, rings, client, strict order

Rates of ours count from the first batch on; CPU is user + system time of client, daemon and workers. The
hand-over is `sl_next` + `sl_batch_release` of a batch that is ready, in C (bench/handover.c).

Caveats: the limits read no file, cross no process border and keep no order, so 1.0 is out of reach. Profile
pillow resizes with another filter than libyuv does, and more exactly. Virtual cores are shared with
strangers: trust ratios within one run only. --peers adds DALI and torch + torchvision.io from the virtual
environment --venv; their decoders give other pixels, and their CPU is that of the whole process tree after
the first batch.
"""

import functools
import json
import os
import pathlib
import statistics
import sys
import tempfile

import common

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyctl", "sl_bench_jpeg_limit", "sl_bench_handover",
           "sl_make_photos"]
PEERS = {"DALI": ("dali.py", "nvidia.dali"), "torch + torchvision.io": ("torch_io.py", "torchvision")}
# A daemon that no other program on this machine shares, and not one that runs already.
OWN_DAEMON = {"SPEEDYLOADER_PRIVATE_NAME": f"bench-{os.getpid()}", "SPEEDYLOADER_SOCKET": None}
SPS = "samples/s"
CPU = "CPU s per 1,000"


def add_arguments(parser):
    parser.add_argument("--peers", action="store_true", help="measure DALI and torch too, where installed")
    parser.add_argument("--venv", type=pathlib.Path, default=common.ROOT / ".venv",
                        help="virtual environment with the peers (default: .venv)")


def spec(folder, profile, seed):
    return {"dataset": {"kind": "image_folder", "path": str(folder)},
            "pipeline": [{"op": "decode", "channels": 3},
                         {"op": "random_resized_crop", "size": [224, 224]},
                         {"op": "random_horizontal_flip", "p": 0.5},
                         {"op": "normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}],
            "output": {"dtype": "float32", "layout": "NCHW"},
            "batch": {"size": 64, "last": "drop"},
            "order": {"shuffle": True, "seed": seed, "policy": "strict"},
            "profile": profile}


def limit(folder, mode, passes, _round):
    line = common.last_json(common.run_program(
        [common.BUILD / "bin" / "sl_bench_jpeg_limit", folder, "--mode", mode, "--passes", passes]).stdout)
    return {SPS: line["sps"], CPU: line["cpu_s_per_1k"]}


def ours(folder, profile, epochs, number):
    # Another seed each round: nothing of an earlier round can be of use.
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(spec(folder, profile, number), file)
        file.flush()
        line = common.last_json(common.run_program(
            [common.BUILD / "bin" / "speedyctl", "run", file.name, "--json", "--epochs", epochs],
            environment=OWN_DAEMON).stdout)
    missing = [key for key in ("samples_per_s", "cpu_s_per_1k", "first_batch_s") if key not in line]
    if missing:
        raise common.BenchError(f"speedyctl's report lacks {', '.join(missing)}")
    result = {SPS: line["samples_per_s"], CPU: line["cpu_s_per_1k"], "first batch s": line["first_batch_s"]}
    for key, title in (("wait_p50_ms", "wait p50 ms"), ("wait_p99_ms", "p99 ms")):
        if key in line:
            result[title] = line[key]
    return result


def peer(python, script, folder, epochs, _round):
    line = common.last_json(common.run_program(
        [python, "-B", common.ROOT / "bench" / "peers" / script, folder, epochs]).stdout)
    return {SPS: line["sps"], CPU: line["cpu_s_per_1k"], "first batch s": line["first_batch_s"]}


def find_peers(options, notes):
    """The peers that the environment can import; a note for each that it cannot."""
    python = options.venv / "bin" / "python"
    found = {}
    for name, (script, module) in PEERS.items():
        try:
            common.run_program([python, "-c", f"import {module}"])
            found[name] = functools.partial(peer, python, script)
        except (OSError, common.BenchError):
            notes.append(f"{name}: skipped, {python} cannot import {module}")
    return found


def handover(folder, wanted):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({**spec(folder, "fast", 1), "epochs": 20}, file)
        file.flush()
        return common.last_json(common.run_program(
            [common.BUILD / "bin" / "sl_bench_handover", file.name, wanted], environment=OWN_DAEMON).stdout)


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure(options):
    notes = []
    folder = common.make_photos(1000 if options.quick else 4000)
    rounds, passes = (2, 1) if options.quick else (5, 2)
    parts = {"limit region": functools.partial(limit, folder, "region", passes),
             "limit fast": functools.partial(limit, folder, "fast", passes),
             "fast": functools.partial(ours, folder, "fast", passes),
             "pillow": functools.partial(ours, folder, "pillow", passes)}
    if options.peers:
        for name, function in find_peers(options, notes).items():
            parts[name] = functools.partial(function, folder, passes)
    results = common.interleave(parts, rounds, say)
    say("hand-over")
    batch = handover(folder, 100 if options.quick else 300)
    rows = [(name, {key: common.column(result, key) for key in result[0]})
            for name, result in results.items()]
    cells = dict(rows)
    middle = {name: {key: statistics.median(values) for key, values in row.items()} for name, row in rows}
    figures = {
        "limit_sps": middle["limit region"][SPS], "fast_limit_sps": middle["limit fast"][SPS],
        "fast_sps": middle["fast"][SPS], "pillow_sps": middle["pillow"][SPS],
        "fast_ratio": common.ratio_of_medians(cells["fast"][SPS], cells["limit fast"][SPS]),
        "pillow_ratio": common.ratio_of_medians(cells["pillow"][SPS], cells["limit region"][SPS]),
        "limit_cpu_s_per_1k": middle["limit region"][CPU],
        "fast_limit_cpu_s_per_1k": middle["limit fast"][CPU],
        "fast_cpu_s_per_1k": middle["fast"][CPU], "pillow_cpu_s_per_1k": middle["pillow"][CPU],
        "handover_us": batch["handover_us"], "handover_in_mapping": batch["in_mapping"],
    }
    notes.append("fast reaches {fast_ratio:.2f} of its limit, pillow {pillow_ratio:.2f}".format(**figures))
    notes.append("hand-over of a ready batch: median {handover_us:.1f} us, p99 {p99_us:.1f} us over "
                 "{batches} batches; tensor in {mapping}".format(**batch))
    return common.Report(rows, figures, notes, (SPS, {name: row[SPS] for name, row in rows}))
