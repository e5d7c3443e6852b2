"""Which way files are read, that it is really that way, and that bytes never depend on it (URG-01 to 04)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from support.capi import Client
from support.specs import id_spec, spec

HERE = pathlib.Path(__file__).parent
WITHOUT_URING = [sys.executable, HERE / "without_uring.py"]
COUNT = 40  # files of few_photos


@pytest.fixture
def job(few_photos):
    return spec(few_photos)


@pytest.fixture
def expected(daemons, job):
    return daemons.run(job, daemons.start("--io", "threads"))["hash"]


def rings(daemon):
    """The daemon's descriptors of io_uring, as paths below fdinfo."""
    numbers = [number for number, link in daemon.descriptors().items() if link == "anon_inode:[io_uring]"]
    return [pathlib.Path(f"/proc/{daemon.pid}/fdinfo/{number}") for number in numbers]


def submissions(daemon):
    """Entries that the kernel has taken from the daemon's one ring."""
    (ring,) = rings(daemon)
    return int(re.search(r"^SqHead:\s*(\d+)", ring.read_text(), re.MULTILINE).group(1))


def system_calls(report):
    """strace -c's table: {name: calls}."""
    rows = (line.split() for line in report.read_text().splitlines())
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}


def test_io_uring_is_really_used_as_the_status_and_the_ring_itself_say(daemons, job):
    daemon = daemons.start("--io", "auto")
    status = daemon.status()
    if status["backend"] != "uring":
        pytest.skip("this machine refuses io_uring: " + status["reader_note"])
    before = submissions(daemon)
    daemons.run(job, daemon)
    assert submissions(daemon) - before >= 2 * COUNT  # an open and a read for each file
    assert daemon.status()["reader_note"] == ""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("backend", ["uring", "threads"])
def test_the_system_calls_are_those_of_the_back_end(daemons, job, backend):
    report = daemons.folder / "calls"
    daemon = daemons.start("--io", backend, wrap=[
        "strace", "-f", "-c", "-o", report, "-e", "trace=io_uring_enter,pread64"])
    daemons.run(job, daemon)
    daemon.stop()
    calls = system_calls(report)
    if backend == "uring":
        assert calls["io_uring_enter"] > 0 and calls.get("pread64", 0) < COUNT
    else:
        assert calls["pread64"] >= COUNT and "io_uring_enter" not in calls


def test_URG_01_where_io_uring_is_forbidden_threads_read_and_one_line_says_why(daemons, job, expected):
    daemon = daemons.start(wrap=WITHOUT_URING)
    status = daemon.status()
    assert status["backend"] == "threads" and rings(daemon) == []
    assert "EPERM" in status["reader_note"] and "seccomp" in status["reader_note"]
    assert daemons.run(job, daemon)["hash"] == expected
    assert daemon.log().count("io_uring refused (EPERM") == 1


def test_URG_01_asking_for_io_uring_where_it_is_forbidden_fails_clearly(daemons):
    with pytest.raises(RuntimeError) as refused:
        daemons.start("--io", "uring", wrap=WITHOUT_URING)
    assert "ended with 1" in str(refused.value)
    assert "io_uring refused (EPERM" in str(refused.value) and "asked for" in str(refused.value)


def test_URG_02_an_ordinary_user_with_64_KB_of_lockable_memory_gets_the_right_epoch(
        daemons, start_as_nobody, job, expected):
    daemon = start_as_nobody(wrap=["sh", "-c", 'ulimit -l 64 && exec "$@"', "sh"])
    assert pathlib.Path(f"/proc/{daemon.pid}").stat().st_uid == 65534
    assert daemons.run(job, daemon)["hash"] == expected
    said = daemon.status()["reader"]
    assert "not registered" in said and "ulimit -l" in said
    assert "not registered" in daemon.log()


def test_URG_02_200_clients_share_one_ring(daemons, id_set):
    daemon = daemons.start("--io", "uring")
    job = id_spec(id_set(12), batch=4)
    clients = [Client(daemon.socket) for _ in range(200)]
    streams = [client.open(job, slots=2) for client in clients]
    assert len(daemon.status()["sessions"]) >= 200
    assert len(rings(daemon)) == 1
    for stream, client in zip(streams, clients):
        assert sorted(i for batch in stream.batches() for i in batch.ids()) == list(range(12))
        stream.close()
        client.disconnect()


@pytest.fixture
def served_in_pieces(few_photos, open_folder):
    """few_photos through a file system that reads at most 1,000 bytes at a time."""
    pytest.importorskip("fusepy", reason="python3-fusepy is not installed")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    server = subprocess.Popen([sys.executable, HERE / "short_reads.py", few_photos, open_folder], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if server.stdout.readline() != "ready\n":
        pytest.skip("cannot mount: " + server.communicate(timeout=30)[1].strip()[-200:])
    yield open_folder
    subprocess.run(["umount", "-l", str(open_folder)], check=True)
    server.wait(timeout=30)


@pytest.mark.parametrize("backend", ["uring", "threads"])
def test_URG_03_a_file_system_that_gives_1000_bytes_at_a_time_gives_the_right_epoch(daemons, served_in_pieces,
                                                                                   expected, backend):
    got = daemons.run(spec(served_in_pieces), daemons.start("--io", backend))
    assert got["hash"] == expected


def test_URG_04_a_ring_of_two_entries_gives_the_right_epoch(daemons, job, expected):
    daemon = daemons.start("--io", "uring", "--io-entries", 2)
    assert "2 entries" in daemon.status()["reader"]
    assert daemons.run(job, daemon)["hash"] == expected
