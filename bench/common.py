"""What every benchmark needs: interleaved repeats, median and spread, CPU of a process tree, the machine.

Used by bench/run and by the benchmark modules beside it. Standard library only. Not thread-safe. Failure is
`BenchError`, whose text is for the user; a program that fails brings the last lines of its stderr.
"""

import ctypes
import dataclasses
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
DATA = ROOT / "build" / "data"


class BenchError(Exception):
    """The benchmark could not measure. str() is one sentence for the user."""


@dataclasses.dataclass
class Report:
    """What a benchmark hands to bench/run.

    `rows` are table lines (name, {column: list of values}); `figures` the numbers acceptance reads;
    `notes` are printed below the table; `plot` is (axis title, {bar name: list of values}) or None. Instead of
    bars, `curves` is a list of panels (title, label of x, label of y, {line: (xs, ys)}, whether x is logarithmic).
    """

    rows: list
    figures: dict
    notes: list = dataclasses.field(default_factory=list)
    plot: tuple | None = None
    curves: list = dataclasses.field(default_factory=list)


def interleave(parts, rounds, say=lambda text: None):
    """Runs every part once a round, so that a slow minute of the machine hits all of them alike.

    `parts` maps a name to a function of the round's number; each round starts with another part.
    Returns {name: [result, one per round]}.
    """
    names = list(parts)
    results = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            say(f"round {number + 1} of {rounds}: {name}")
            results[name].append(parts[name](number))
    return results


def column(results, key):
    """One key of a list of result dicts, as a list."""
    return [result[key] for result in results]


def ratio_of_medians(above, below):
    return statistics.median(above) / statistics.median(below)


def spread(values):
    """Half the distance between the largest and the smallest value, as a share of the median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / abs(middle) if middle else 0.0


@dataclasses.dataclass
class Run:
    stdout: str
    seconds: float
    cpu_seconds: float


def run_program(argv, timeout=600, environment=None):
    """Runs a program to its end and counts the CPU time of everything it started.

    This process becomes the reaper of orphans, so a daemon that the program left behind is waited for (it
    leaves by itself) and counted too; what is still there 15 s later is killed and is an error. `environment`
    adds variables; None takes one away.
    """
    merged = {**os.environ, **(environment or {})}
    merged = {name: text for name, text in merged.items() if text is not None}
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    start = time.monotonic()
    with subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=merged, start_new_session=True) as process:
        before = os.times()
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise BenchError(f"{argv[0]} did not end within {timeout} s") from late
    seconds = time.monotonic() - start
    _reap_orphans(argv[0], 15)
    after = os.times()
    if process.returncode != 0:
        lines = (stderr.strip() or stdout.strip()).splitlines()[-5:]
        raise BenchError(f"{argv[0]} ended with status {process.returncode}: " + " | ".join(lines))
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(stdout, seconds, cpu)


def _reap_orphans(name, patience):
    end = time.monotonic() + patience
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if time.monotonic() > end:
                break
            time.sleep(0.02)
    for pid in _own_children():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    raise BenchError(f"{name} left a process behind that did not leave within {patience} s")


def _own_children():
    text = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]


def last_json(text):
    """The JSON object that `text` is, else the last line of it that is one."""
    for candidate in [text, *reversed(text.splitlines())]:
        try:
            found = json.loads(candidate)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    raise BenchError("the program printed no JSON object")


def make_photos(count):
    """The folder with `count` photographs, made if it is not there; every file is read to warm the cache."""
    folder = DATA / f"photos-{count}"
    run_program([BUILD / "bin" / "sl_make_photos", folder, "--count", count])
    for path in folder.rglob("*.jpg"):
        path.read_bytes()
    return folder


def machine():
    """Where it was measured: figures of different machines are never to be compared."""
    cpu = re.search(r"model name\s*:\s*(.+)", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": cpu.group(1).strip() if cpu else platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 2**30, 1),
            "kernel": platform.release()}


def versions():
    """Compiler, project and libraries, as far as they can be asked."""
    def ask(*argv):
        try:
            return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ""
    found = {"compiler": ask("c++", "--version").partition("\n")[0],
             "commit": ask("git", "-C", str(ROOT), "describe", "--always", "--dirty")}
    for library in ("libjpeg", "vips", "liburing", "libhwy"):
        found[library] = ask("pkg-config", "--modversion", library)
    found["libyuv"] = ask("dpkg-query", "-W", "-f=${Version}", "libyuv-dev")
    return {name: text for name, text in found.items() if text}
