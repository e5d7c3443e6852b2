"""A folder is scanned once, whoever asks, and not again while nothing has changed (LDR-16).

Counted from outside: system calls by strace, listings by the file system itself, scans by the daemon's
status.
"""

import itertools
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.capi import Client, Error
from support.daemon import PROGRAMS, wait_for
from support.specs import id_spec

DIRECTORIES = 7
FILES = 300
strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def many(open_folder):
    """7 class folders of 300 empty pictures, names only."""
    for directory in range(DIRECTORIES):
        (open_folder / f"c{directory}").mkdir()
        for number in range(FILES):
            (open_folder / f"c{directory}" / f"{number}.jpg").touch()
    return open_folder


def lenient(folder):
    """Empty pictures fail one by one; a stream that allows it can still be opened and closed."""
    return id_spec(folder, errors={"policy": "placeholder", "max_failures": 10**6, "max_rate": 1.0})


def report_of(daemon, folder):
    with Client(daemon.socket) as client:
        stream = client.open(lenient(folder))
        report = stream.report()
        stream.close()
    return report


def manifest_of(daemon, folder):
    report = report_of(daemon, folder)
    assert report["samples"] == DIRECTORIES * FILES
    return report["manifest"]


class Traced:
    """A daemon under strace; `calls(pattern)` are the lines of its scan's system calls."""

    def __init__(self, daemons, folder):
        self.file = daemons.folder / f"trace{len(daemons.daemons)}"
        traced = "trace=stat,lstat,newfstatat,statx,getdents64"
        strace_it = ["strace", "-f", "-y", "-o", self.file, "-e", traced]
        self.daemon = daemons.start("--io", "uring", wrap=strace_it)
        self.manifest = manifest_of(self.daemon, folder)
        self.daemon.stop()

    def calls(self, pattern):
        return [line for line in self.file.read_text().splitlines() if re.search(pattern, line)]


@strace
def test_a_scan_looks_at_no_file_and_a_second_one_at_each_directory_once(daemons, many):
    if subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode != 0:
        pytest.skip("strace may not trace here")
    below = f"{many}/c\\d"
    first = Traced(daemons, many)
    assert (first.manifest["used"], first.manifest["kept"]) == (False, True)
    assert len(first.calls(f"getdents64.*{below}")) >= DIRECTORIES
    by_name = r'stat.*"[^"]*\.jpg"'  # not the reader's look at the size of a file that it has open
    assert not first.calls(by_name)
    second = Traced(daemons, many)
    assert second.manifest["used"]
    assert not second.calls(f"getdents64.*{many}")
    assert not second.calls(by_name)
    looks = second.calls(rf'newfstatat\(\d+<{many}>, "[^"]*"')
    assert len(looks) == DIRECTORIES + 1, looks  # and the folder itself


def test_a_restarted_daemon_uses_the_manifest_and_notices_a_new_file(daemons, many):
    assert manifest_of(daemons.start(), many)["used"] is False
    restarted = daemons.start()
    assert manifest_of(restarted, many)["used"] is True
    (many / "c3" / "new.jpg").touch()
    report = report_of(restarted, many)
    assert report["samples"] == DIRECTORIES * FILES + 1
    assert report["manifest"]["used"] is False
    assert "c3" in report["manifest"]["note"]


def test_the_same_batches_come_from_a_scan_and_from_its_manifest(daemons, id_set):
    spec = id_spec(id_set(60))
    first = daemons.run(spec, daemons.start())
    second_daemon = daemons.start()
    second = daemons.run(spec, second_daemon)
    assert second_daemon.status()["manifests_used"] == 1
    assert (second["epoch_hashes"], second["ids"]) == (first["epoch_hashes"], first["ids"])


def test_a_state_saved_from_a_scan_opens_on_its_manifest(daemons, id_set):
    spec = id_spec(id_set(60), batch=4)
    with Client(daemons.start().socket) as client:
        stream = client.open(spec)
        stream.next()[1].release()
        state = stream.state()
        ids = [batch.ids() for batch in stream.batches()]
    daemon = daemons.start()
    with Client(daemon.socket) as client:
        assert [batch.ids() for batch in client.open(spec, state=state).batches()] == ids
    assert daemon.status()["manifests_used"] == 1


def test_a_daemon_without_a_cache_folder_scans_each_time_and_says_why(daemons, many):
    daemon = daemons.start(env={"XDG_CACHE_HOME": "/dev/null/nowhere"})
    manifest = manifest_of(daemon, many)
    assert (manifest["used"], manifest["kept"]) == (False, False)
    assert "/dev/null/nowhere" in manifest["note"]


# ---- many clients, and progress: a folder whose listing waits ----


class Slow:
    def __init__(self, mount, gate):
        self.mount = mount
        self.gate = gate

    def open_gate(self):
        self.gate.touch()

    def close_gate(self):
        self.gate.unlink()

    def listings(self):
        listed = Path(f"{self.gate}.listed")
        return len(listed.read_text().splitlines()) if listed.exists() else 0


@pytest.fixture
def slow(tmp_path):
    pytest.importorskip("fusepy", reason="python3-fusepy is not installed")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    mount = tmp_path / "mount"
    mount.mkdir()
    gate = tmp_path / "gate"
    script = Path(__file__).with_name("slow_listing.py")
    server = subprocess.Popen([sys.executable, str(script), str(mount), str(gate), "50"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if server.stdout.readline() != "ready\n":
        pytest.skip("cannot mount: " + server.communicate(timeout=30)[1].strip()[-200:])
    yield Slow(mount, gate)
    gate.touch()
    subprocess.run(["umount", "-l", str(mount)], check=True)
    server.wait(timeout=30)


def test_eight_clients_that_ask_at_once_cause_one_scan(daemon, slow):
    found = []

    def ask():
        found.append(report_of(daemon, slow.mount))

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    wait_for(lambda: sum(scan["clients"] for scan in daemon.status()["scans"]) == 8,
             what=lambda: daemon.status()["scans"])
    scans = daemon.status()["scans"]
    assert [scan["running"] for scan in scans].count(True) == 1
    assert all(scan["path"] == str(slow.mount) for scan in scans)
    slow.open_gate()
    for asker in askers:
        asker.join(60)
    assert [report["samples"] for report in found] == [50] * 8
    assert slow.listings() == 1
    status = daemon.status()
    assert status["scans"] == []
    assert (status["scans_made"], status["manifests_used"]) == (1, 1)


def test_an_opening_that_waits_for_a_scan_holds_up_nothing_else_of_its_client(daemon, slow, many):
    with Client(daemon.socket) as client:
        stream = client.open(lenient(many))
        late = []
        opener = threading.Thread(target=lambda: late.append(client.open(lenient(slow.mount))))
        opener.start()
        wait_for(lambda: slow.listings() == 1)
        assert stream.report()["samples"] == DIRECTORIES * FILES
        stream.close()
        assert daemon.status()["streams"] == []
        client.open(lenient(many)).close()
        assert late == []
        slow.open_gate()
        opener.join(60)
        assert late[0].report()["samples"] == 50
        late[0].close()


def test_after_a_restart_a_stream_that_waits_for_a_scan_holds_up_no_other_of_its_client(daemons, slow, id_set):
    daemon = daemons.start(env={"XDG_CACHE_HOME": "/dev/null/nowhere"})  # it scans again
    slow.open_gate()
    with Client(daemon.socket) as client:
        waits = client.open(lenient(slow.mount) | {"epochs": 20}, 2)
        goes_on = client.open(id_spec(id_set(40), batch=4) | {"epochs": 1000}, 2)
        slow.close_gate()
        daemon.kill()
        daemon.start()
        came = []
        taker = threading.Thread(target=lambda: came.append(len(list(waits.batches()))))
        taker.start()
        wait_for(lambda: slow.listings() == 2)
        assert len(list(itertools.islice(goes_on.batches(), 20))) == 20
        goes_on.close()
        wait_for(lambda: daemon.status()["streams"] == [], 30)
        assert came == []
        slow.open_gate()
        taker.join(60)
        assert came == [20 * waits.batches_per_epoch]
        waits.close()


def mix_of(*folders):
    parts = [{"kind": "image_folder", "path": str(folder)} for folder in folders]
    return lenient(folders[0]) | {"dataset": {"kind": "mix", "parts": parts}}


def test_the_folders_of_a_mix_are_scanned_at_the_same_time(daemon, slow):
    found = []

    def ask():
        with Client(daemon.socket) as client:
            stream = client.open(mix_of(slow.mount, slow.mount / "c"))
            found.append(stream.report()["samples"])
            stream.close()

    asker = threading.Thread(target=ask)
    asker.start()
    wait_for(lambda: [scan["running"] for scan in daemon.status()["scans"]] == [True, True],
             what=lambda: daemon.status()["scans"])
    slow.open_gate()
    asker.join(60)
    assert found == [100]


@pytest.fixture
def stuck(daemons, daemon, slow):
    """Four clients whose scans, by as many names of one folder, do not end until the gate is opened."""
    names = [slow.mount.with_name(f"name{number}") for number in range(4)]
    for name in names:
        name.symlink_to(slow.mount)
    askers = [daemons.begin(lenient(name), daemon) for name in names]
    wait_for(lambda: [scan["running"] for scan in daemon.status()["scans"]] == [True] * 4,
             what=lambda: daemon.status()["scans"])
    yield names
    slow.open_gate()
    for asker in askers:
        asker.communicate(timeout=60)


def test_scans_that_do_not_end_hold_nobody_else_up(daemon, stuck, many):
    assert report_of(daemon, many)["samples"] == DIRECTORIES * FILES
    assert {scan["path"] for scan in daemon.status()["scans"]} == set(map(str, stuck))


def test_clients_that_left_while_they_waited_for_a_scan_are_forgotten(daemons, daemon, stuck):
    def waiting():
        return [scan["clients"] for scan in daemon.status()["scans"] if not scan["running"]]

    for _ in range(3):
        asker = daemons.begin(lenient(stuck[0]), daemon)
        wait_for(lambda: waiting() == [1], what=lambda: daemon.status()["scans"])
        asker.kill()
        asker.communicate()
        pids = [asker.pid]
        wait_for(lambda: not any(session["pid"] in pids for session in daemon.status()["sessions"]))


def test_a_mix_with_a_folder_that_is_missing_is_refused_while_others_are_still_scanned(daemon, slow, many):
    with Client(daemon.socket) as client:
        with pytest.raises(Error, match=r"dataset.parts\[1\]: .*/nowhere"):
            client.open(mix_of(slow.mount, slow.mount / "nowhere", many))
        assert daemon.status()["scans"][0]["path"] == str(slow.mount)
        stream = client.open(mix_of(many))  # the session goes on, and what comes late disturbs nobody
        slow.open_gate()
        wait_for(lambda: daemon.status()["scans"] == [], what=lambda: daemon.status()["scans"])
        assert stream.report()["samples"] == DIRECTORIES * FILES
        stream.close()


def test_speedyctl_shows_how_far_a_scan_is_and_what_it_found(daemons, slow):
    daemon = daemons.start()
    leader, follower = pty.openpty()
    command = [PROGRAMS / "speedyctl", "scan", slow.mount, "--json", "--socket", daemon.socket]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=follower,
                               env=daemons.environment)
    os.close(follower)
    shown = b""
    while b"scanning: 0 images in 2 directories" not in shown:  # `c` is entered, and waits
        assert select.select([leader], [], [], 30)[0], shown
        shown += os.read(leader, 4096)
    slow.open_gate()
    out, _ = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 0
    found = json.loads(out)
    assert (found["samples"], found["classes"], found["skipped_files"]["directories"]) == (50, 1, 2)
    assert (found["manifest"]["used"], found["manifest"]["kept"]) == (False, True)


def test_speedyctl_scan_says_in_words_whether_the_manifest_was_used(daemons, many):
    (many / "notes.txt").touch()

    def scan(daemon):
        command = [str(PROGRAMS / "speedyctl"), "scan", str(many), "--socket", str(daemon.socket)]
        done = subprocess.run(command, capture_output=True, text=True, env=daemons.environment, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = scan(daemons.start())
    assert re.search(r"^manifest +written: there was none$", first, re.M)
    assert re.search(r"^skipped: other +1, as notes.txt$", first, re.M)
    assert re.search(rf"^samples +{DIRECTORIES * FILES}$", first, re.M)
    assert re.search(r"^manifest +used, nothing has changed$", scan(daemons.start()), re.M)
