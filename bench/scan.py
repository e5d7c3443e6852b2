"""A folder of a million names: the first scan, the second start, and what an entry costs in memory.

Empty files, 1,000 a directory, on tmpfs, made for the run and deleted after it. A round starts a daemon with
an empty cache folder, lets `speedyctl scan` open the folder, stops it, and does the same again with a second
daemon and the manifest that the first one kept. `scan s` and `rescan s` are the opening as the client waits
for it; `bytes an entry` is by how much the daemon's peak memory grew in it, the stream of batch size 1 that
speedyctl opens included; `rescan bytes` the same from the manifest. --entries 10000000 shows how it scales
(needs a few GB of memory, and as root a tmpfs of its own, because of the limit on inodes).

Caveats: names of 11 bytes ("0000123.jpg"); tmpfs keeps directories in memory, so no disk and no server is
waited for. On other file systems the first scan takes what listing takes there; the second start still costs
one stat a directory.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import common

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyctl"]
A_DIRECTORY = 1000
SCAN, RESCAN, BYTES, RESCAN_BYTES = "scan s", "rescan s", "bytes an entry", "rescan bytes"


def add_arguments(parser):
    parser.add_argument("--entries", type=int, default=1_000_000, help="empty files (default: 1,000,000)")


@contextlib.contextmanager
def memory_folder(entries):
    """A folder on tmpfs with room for the inodes: /dev/shm if it has them, else a mount of its own."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sl-bench-scan", dir="/dev/shm"))
    mounted = False
    try:
        if os.statvfs(folder).f_favail < 2 * entries:
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=0", "tmpfs", folder],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise common.BenchError(f"/dev/shm has too few inodes, and: {done.stderr.strip()}")
            mounted = True
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def make_names(folder, entries):
    for number in range(entries // A_DIRECTORY):
        directory = folder / f"class{number:05d}"
        directory.mkdir()
        descriptor = os.open(directory, os.O_RDONLY)
        for name in range(A_DIRECTORY):
            os.mknod(f"{name:07d}.jpg", 0o100600, dir_fd=descriptor)
        os.close(descriptor)


def peak_bytes(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", text).group(1)) * 1024


def scan_once(data, cache, expect_used):
    """One daemon's life: (seconds, bytes by which its peak grew)."""
    with tempfile.TemporaryDirectory(prefix="slb") as place:
        socket = pathlib.Path(place) / "s"
        command = [common.BUILD / "bin" / "speedyloaderd", "--socket", socket, "--workers", "1",
                   "--memory", "1GiB", "--log-level", "error"]
        daemon = subprocess.Popen(command, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
        try:
            wait_until_up(daemon, socket)
            before = peak_bytes(daemon.pid)
            found = scan_through(socket, data)
            grown = peak_bytes(daemon.pid) - before
        finally:
            daemon.terminate()
            daemon.wait(60)
    if found["manifest"]["used"] != expect_used:
        raise common.BenchError(f"the manifest was not as expected: {found['manifest']}")
    return found["samples"], found["seconds"], grown


def scan_through(socket, data):
    command = [common.BUILD / "bin" / "speedyctl", "scan", data, "--json", "--socket", socket]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise common.BenchError(f"speedyctl scan ended with status {done.returncode}: {done.stderr.strip()}")
    return common.last_json(done.stdout)


def wait_until_up(daemon, socket):
    while True:
        done = subprocess.run([common.BUILD / "bin" / "speedyctl", "status", "--json", "--socket", socket],
                              capture_output=True, check=False)
        if done.returncode == 0 and json.loads(done.stdout):
            return
        if daemon.poll() is not None:
            raise common.BenchError(f"speedyloaderd ended with status {daemon.returncode}")
        time.sleep(0.02)


def one_round(data, entries):
    with tempfile.TemporaryDirectory(prefix="sl-bench-cache") as cache:
        samples, scan_s, scan_bytes = scan_once(data, cache, expect_used=False)
        again, rescan_s, rescan_bytes = scan_once(data, cache, expect_used=True)
    if not samples == again == entries:
        raise common.BenchError(f"{entries} names, but {samples} and then {again} samples")
    return {SCAN: scan_s, RESCAN: rescan_s, BYTES: scan_bytes / entries, RESCAN_BYTES: rescan_bytes / entries}


def measure(options):
    entries = options.entries // A_DIRECTORY * A_DIRECTORY
    rounds = 2 if options.quick else 5
    with memory_folder(entries) as folder:
        print(f"making {entries} names", file=sys.stderr, flush=True)
        make_names(folder, entries)
        results = []
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            results.append(one_round(folder, entries))
    cells = {key: common.column(results, key) for key in results[0]}
    middle = {key: statistics.median(values) for key, values in cells.items()}
    size = f"{entries // 1_000_000}m" if entries % 1_000_000 == 0 else f"{entries // 1000}k"
    figures = {f"scan_{size}_s": middle[SCAN], f"rescan_{size}_s": middle[RESCAN],
               "bytes_per_entry": middle[BYTES], "rescan_bytes_per_entry": middle[RESCAN_BYTES]}
    notes = [f"{entries} names: scan {middle[SCAN]:.2f} s, second start {middle[RESCAN]:.2f} s, "
             f"{middle[BYTES]:.0f} bytes an entry"]
    return common.Report([(f"{entries} names", cells)], figures, notes,
                         ("s", {SCAN: cells[SCAN], RESCAN: cells[RESCAN]}))
