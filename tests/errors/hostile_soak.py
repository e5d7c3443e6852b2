"""A well-behaved client beside a hostile one, for a while: is it served rightly, and as fast as beside an idle one?

    python3 tests/errors/hostile_soak.py [--seconds 60] [--build build/asan]

The daemon is the one of --build; with `asan` a fault that the hostile client provokes is a sanitizer's report, which the
daemon does not survive. The hostile client is support/hostile.py, at nice 19 and, where this program is run by root, of
another user. The well-behaved one takes pictures whose bytes are known as fast as it gets them. Every 3 s the hostile one
is stopped or goes on (SIGSTOP, SIGCONT): stopped it is an idle client that holds what it has, and the two kinds of
windows, side by side, tell what its hostility costs. On two processors that the daemon's workers could use alone, what the
hostile program itself takes of them is part of that; hence nice 19.

Prints one JSON line: batches, wrong ones, share (median over pairs of windows of the rate beside the hostile client to that
beside the idle one), low and high. Exit status 0 if the daemon lives and every batch was right, whatever the share.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "makers")]

import test_card  # noqa: E402
from support.capi import OK, Client, Error  # noqa: E402
from support.daemon import clean_environment  # noqa: E402
from support.specs import id_spec  # noqa: E402
from support.users import as_user, root  # noqa: E402

WINDOW = 3.0
PICTURES = 96
STRANGER = 61234


def without_address_randomisation():
    """GCC 12's sanitizers cannot place their shadow under the widest one."""
    command = ["setarch", os.uname().machine, "-R"]
    tried = subprocess.run([*command, "true"], capture_output=True)
    return command if tried.returncode == 0 else []


def start_daemon(build, folder, pictures):
    path = folder / "socket"
    config = folder / "config"
    config.write_text(root(pictures, STRANGER))
    log = open(folder / "log", "wb")
    command = [*without_address_randomisation(), build / "bin" / "speedyloaderd", "--socket", path, "--workers", "2",
               "--memory", "2GiB", "--config", config]
    daemon = subprocess.Popen([str(word) for word in command], stderr=log, stdout=log,
                              env=clean_environment(XDG_CACHE_HOME=folder / "cache", UBSAN_OPTIONS="print_stacktrace=1"))
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(Error):
            Client(path).disconnect()
            path.chmod(0o666)
            return daemon, path
        assert daemon.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.02)


def start_hostile(path, pictures):
    command = ["nice", "-n", "19", sys.executable, "-m", "support.hostile", str(path), str(pictures)]
    if os.geteuid() == 0:
        command = [*as_user(STRANGER), *command]
    hostile = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True, start_new_session=True,
                               env=clean_environment(PYTHONPATH=TESTS))
    said = hostile.stdout.readline()
    assert said == "attacking\n", (said, hostile.poll())
    return hostile


class Consumer:
    """Takes batches and compares each with what the first epoch had at its place, before anybody was hostile."""

    def __init__(self, path, pictures):
        self.client = Client(path)
        job = id_spec(pictures, batch=8, shuffle=False) | {"epochs": 10_000_000}
        self.stream = self.client.open(job)
        self.known = {}
        self.batches = self.wrong = 0

    def take(self):
        status, batch = self.stream.next()
        if status != OK:
            return
        _, place, _ = batch.place()
        content = zlib.crc32(batch.raw("image")[2], zlib.crc32(batch.raw("sample_id")[2]))
        batch.release()
        self.batches += 1
        self.wrong += content != self.known.setdefault(place, content)

    def take_for(self, seconds):
        """Batches a second."""
        begin = time.monotonic()
        before = self.batches
        while (now := time.monotonic()) < begin + seconds:
            self.take()
        return (self.batches - before) / (now - begin)

    def learn(self):
        while len(self.known) < PICTURES // 8 or self.batches < 2 * len(self.known):
            self.take()


def soak(build, seconds):
    with tempfile.TemporaryDirectory(prefix="sl-hostile") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        pictures = folder / "pictures"
        test_card.id_pictures(pictures, PICTURES, classes=3, size=(160, 160))
        daemon, path = start_daemon(build, folder, pictures)
        hostile = None
        try:
            consumer = Consumer(path, pictures)
            consumer.learn()
            hostile = start_hostile(path, pictures)
            shares = []
            end = time.monotonic() + seconds
            while time.monotonic() < end or not shares:
                beside_hostile = consumer.take_for(WINDOW)
                os.killpg(hostile.pid, signal.SIGSTOP)
                beside_idle = consumer.take_for(WINDOW)
                os.killpg(hostile.pid, signal.SIGCONT)
                shares.append(beside_hostile / beside_idle)
            assert daemon.poll() is None, (folder / "log").read_text()
        finally:
            if hostile is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(hostile.pid, signal.SIGKILL)
                hostile.wait()
            daemon.terminate()
            status = daemon.wait(timeout=60)
        log = (folder / "log").read_text(errors="replace")
        assert status == 0 and "Sanitizer" not in log and "runtime error:" not in log, log[-20000:]
        return {"batches": consumer.batches, "wrong": consumer.wrong, "share": statistics.median(shares),
                "low": min(shares), "high": max(shares), "lines_logged": log.count("\n")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--build", type=pathlib.Path, default=TESTS.parent / "build" / "asan")
    options = parser.parse_args()
    result = soak(options.build.resolve(), options.seconds)
    print(json.dumps(result))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
