"""Passing errors are not seen, lasting ones have a name, and a read that never returns costs one sample (LDR-13).

Over a FUSE mount with faults on demand (reader/fuse_folder.py); skipped, with the reason, where there is none.
"""

import contextlib
import os
import re
import time

import fuse_folder
import pytest
import test_card
from support.capi import Client
from support.daemon import wait_for
from support.specs import id_spec

pytest.importorskip("fusepy", reason="python3-fusepy is not installed")

COUNT = 40
FOREVER = 10**9
SHORT = ("--read-timeout", "500ms")


@pytest.fixture
def mount(open_folder):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    test_card.id_pictures(open_folder, COUNT)
    with fuse_folder.Mount(open_folder) as mounted:
        if mounted.trouble is not None:
            pytest.skip(f"cannot mount: {mounted.trouble.strip()[-200:]}")
        yield mounted


@pytest.fixture(params=["uring", "threads"])
def back_end(request):
    return ("--io", request.param)


def picture(number):
    return f"sample_{number:07d}.png"


def deliver(client, folder, policy="placeholder", **options):
    """Runs a stream to its end: (ids of the pictures that came, {sample id: kind of its failure})."""
    errors = {"policy": policy, "max_failures": 10**6, "max_rate": 1.0}
    stream = client.open(id_spec(folder, batch=10, errors=errors, **options))
    came = [i for batch in stream.batches() for i, flag in zip(batch.ids(), batch.valid()) if flag]
    failures = {failure["sample_id"]: failure["kind"] for failure in stream.report()["failures"]}
    stream.close()
    return sorted(came), failures


def threads(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/task"))


@pytest.mark.parametrize("on, error, times", [
    ("read", "EIO", 1), ("read", "EAGAIN", 5), ("read", "ETIMEDOUT", 5), ("read", "EINTR", 5), ("read", "ESTALE", 3),
    ("open", "EIO", 1), ("open", "ETIMEDOUT", 5), ("open", "ESTALE", 3)])
def test_LDR_13_an_error_that_passes_is_not_seen(daemons, mount, back_end, on, error, times):
    mount.rule("all", on=on, error=error, times=times)
    daemon = daemons.start(*back_end)
    with Client(daemon.socket) as client:
        assert deliver(client, mount.folder) == (list(range(COUNT)), {})


@pytest.mark.parametrize("error, kind", [("EIO", "io"), ("ESTALE", "changed"), ("ETIMEDOUT", "timeout")])
def test_LDR_13_an_error_that_stays_has_its_name_and_is_not_held_against_the_file(daemons, mount, back_end, error,
                                                                                  kind):
    bad = {3, 4, 21}
    for number in bad:
        mount.rule(picture(number), on="read", error=error, times=FOREVER)
    daemon = daemons.start(*back_end, *SHORT)
    with Client(daemon.socket) as client:
        rest = [i for i in range(COUNT) if i not in bad]
        assert deliver(client, mount.folder) == (rest, dict.fromkeys(bad, kind))
        mount.wake()
        assert deliver(client, mount.folder) == (list(range(COUNT)), {})


def test_LDR_13_a_burst_of_errors_is_logged_once_with_its_count(daemons, mount):
    mount.rule("all", on="read", error="EIO", times=FOREVER)
    daemon = daemons.start()
    with Client(daemon.socket) as client:
        assert deliver(client, mount.folder) == ([], dict.fromkeys(range(COUNT), "io"))
    assert daemon.stop() == 0
    lines = [line for line in daemon.log().splitlines() if str(mount.folder) in line]
    assert len(lines) == 2 and re.search(r"sample_\d+\.png: io: ", lines[0])
    assert f"{COUNT - 1} more samples failed with io" in lines[1]


@pytest.mark.parametrize("on", ["read", "open"])
@pytest.mark.parametrize("asleep", [1, 6])  # 6: more than the mount has threads
def test_LDR_13_a_call_that_never_returns_costs_its_sample_and_not_the_stream(daemons, mount, back_end, on, asleep):
    bad = set(range(5, 5 + asleep))
    for number in bad:
        mount.rule(picture(number), on=on, sleep=True)
    daemon = daemons.start(*back_end, *SHORT)
    with Client(daemon.socket) as client:
        rest = [i for i in range(COUNT) if i not in bad]
        assert deliver(client, mount.folder) == (rest, dict.fromkeys(bad, "timeout"))
        held = daemon.status()["memory"]["input_used"]
        assert held == (4096 * asleep if on == "read" else 0)  # the kernel may still write there
        mount.wake()
        wait_for(lambda: daemon.status()["memory"]["input_used"] == 0, 10, "the buffers")
        wait_for(lambda: not any("/mount/" in to for to in daemon.descriptors().values()), 10, "the descriptors")
        assert deliver(client, mount.folder) == (list(range(COUNT)), {})


def test_LDR_13_a_mount_that_has_died_fails_at_once_and_works_again_when_it_wakes(daemons, mount, back_end):
    daemon = daemons.start(*back_end, *SHORT)
    with Client(daemon.socket) as client:
        deliver(client, mount.folder)
        before = threads(daemon)
        mount.rule("all", on="read", sleep=True)
        everything = dict.fromkeys(range(COUNT), "timeout")
        for _ in range(3):
            assert deliver(client, mount.folder) == ([], everything)
        assert mount.asleep() <= 8 + 4  # calls given up, and those that threads were at
        assert threads(daemon) <= before + 8
        assert deliver(client, mount.folder, epochs=20) == ([], everything)  # 800 samples: none waits for a deadline
        mount.wake()
        wait_for(lambda: deliver(client, mount.folder) == (list(range(COUNT)), {}), 30, "all samples")


def test_LDR_13_a_stream_that_sleeps_closes_at_once_and_its_memory_is_not_used_again_before(daemons, mount, back_end):
    mount.rule("all", on="read", sleep=True)
    daemon = daemons.start(*back_end)  # 30 s for each read
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(mount.folder, batch=10))
        wait_for(mount.asleep, 10, "a read that sleeps")
        began = time.monotonic()
        stream.close()
        assert time.monotonic() - began < 10
        assert daemon.status()["memory"]["input_used"] > 0
        mount.wake()
        wait_for(lambda: daemon.status()["memory"]["input_used"] == 0, 10, "the buffers")


def test_LDR_13_opens_that_hang_leave_descriptors_for_other_streams(daemons, mount, back_end, id_set):
    daemon = daemons.start(*back_end, "--read-timeout", "3600 s", wrap=["prlimit", "--nofile=256:256"])
    mount.rule("all", on="open", sleep=True)
    with Client(daemon.socket) as here, Client(daemon.socket) as there:
        stream = there.open(id_spec(mount.folder, batch=10, epochs=10))  # wants more opens than the daemon has
        wait_for(lambda: mount.asleep() == 4, 10, "a thread for each open that sleeps")
        assert deliver(here, id_set(120)) == (list(range(120)), {})
        mount.wake()
        stream.close()


def test_LDR_13_the_daemon_stops_while_reads_hang(daemons, mount, back_end):
    mount.rule("all", on="read", sleep=True)
    daemon = daemons.start(*back_end)
    with Client(daemon.socket) as client:
        client.open(id_spec(mount.folder, batch=10))
        wait_for(mount.asleep, 10, "a read that sleeps")
        workers = daemon.worker_pids()
        daemon.process.terminate()
        wait_for(lambda: "info: stopped" in daemon.log(), 10, daemon.log)
        # Its work is done; what is left is the kernel's, which lets no process go in the middle of such a call.
        assert not daemon.socket.exists()
        assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
        mount.wake()
        assert daemon.stop() == 0


@pytest.mark.parametrize("other", ["on disk", "served too"])
def test_LDR_13_clients_of_other_mounts_go_on_while_one_hangs(daemons, mount, back_end, id_set, other):
    """How much of their rate they keep is measured by bench/run hung_mount."""
    bound = 4  # threads that read a mount that may hang
    daemon = daemons.start(*back_end, "--read-timeout", "3600 s")  # nothing here is let go by a deadline
    with contextlib.ExitStack() as stack:
        here, there = (stack.enter_context(Client(daemon.socket)) for _ in range(2))
        folder, count = id_set(120), 120
        if other == "served too":
            folder = stack.enter_context(fuse_folder.Mount(folder)).folder
        assert deliver(here, folder) == (list(range(count)), {})
        before = threads(daemon)
        mount.rule("all", on="read", sleep=True)
        streams = [there.open(id_spec(mount.folder, batch=10)) for _ in range(3)]
        wait_for(lambda: mount.asleep() == bound, 10, "a thread for each read that sleeps")
        for _ in range(3):
            assert deliver(here, folder) == (list(range(count)), {})
        assert mount.asleep() == bound  # 120 samples want it, and it got no thread but its own
        assert threads(daemon) <= before + bound
        mount.wake()
        for stream in streams:
            assert sorted(i for batch in stream.batches() for i in batch.ids()) == list(range(COUNT))
            stream.close()
