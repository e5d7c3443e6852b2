"""The quarantine's file where paths and file systems are odd: nothing hangs, no sample is lost, the log says it once."""

import contextlib
import fcntl
import json
import os
import subprocess
import threading

import pytest
import test_card
from support.daemon import PROGRAMS, wait_for
from support.quarantine import control, decoded, file_of, id_job, outcome, path_of, remembered

COUNT = 20
MOST_BYTES = 8 << 20
NAMES = {
    "not UTF-8": b"a\xff\xfe%41.png",
    "a newline": b"two\nlines.png",
    "control characters": b"\x1b[31mred\x07.png",
    "quotes": b"it's \"a\" \\ %.png",
    "UTF-8": "bl\u00e5\u3042.png".encode(),
    "a cut sequence": b"cut\xe3\x81.png",
}
TROUBLES = {}


@pytest.fixture
def pictures(open_folder):
    return test_card.id_pictures(open_folder, COUNT)


def bad_file(beside, name, content=b"no picture"):
    """The path, as bytes, of a sample that fails."""
    path = os.path.join(os.fsencode(os.path.dirname(beside)), name)
    with open(path, "wb") as file:
        file.write(content)
    return path


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_any_path_is_remembered_listed_and_forgiven(daemons, pictures, open_folder, name):
    bad = bad_file(pictures[0], name)
    daemon = daemons.start()
    first = outcome(daemon, id_job(open_folder))
    assert len(first[1]) == 1
    daemon.stop()
    assert [os.fsencode(path) for path in remembered(daemons)] == [bad]
    daemon.start()
    assert outcome(daemon, id_job(open_folder)) == first
    assert decoded(daemon) == COUNT  # it was known after the restart

    listed = json.loads(control(daemons, "list", "--json").stdout)["entries"]
    assert [path_of(entry) for entry in listed] == [bad]
    text = control(daemons, "list").stdout
    assert len(text.splitlines()) == 2 and "\x1b" not in text and "\x07" not in text
    if "$'" in text:  # what is shown can be given to a shell
        word = text[text.index("$'"):text.index("': ") + 1]
        assert subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True).stdout == bad

    unknown = control(daemons, "forgive", os.fsdecode(bad) + "x")
    assert unknown.returncode == 1 and "nothing was forgiven" in unknown.stderr
    assert control(daemons, "forgive", os.fsdecode(bad)).returncode == 0
    assert remembered(daemons) == {}
    assert outcome(daemon, id_job(open_folder)) == first
    assert decoded(daemon) == 2 * COUNT + 1


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_any_path_is_one_line_of_the_log(daemons, pictures, open_folder, name):
    bad_file(pictures[0], name, b"SL-TEST-ABORT")
    daemon = daemons.start()
    assert '"poison"' in outcome(daemon, id_job(open_folder))[1][0]
    daemon.stop()
    log = daemon.log_file.read_bytes()
    told = [line for line in log.splitlines() if b"has ended its worker" in line]
    assert len(told) == 1 and os.fsencode(os.path.dirname(pictures[0])) in told[0]
    assert b"\x1b[31mred" not in log and b"\x07" not in log


def test_a_path_as_long_as_they_get_is_remembered(daemons, pictures, open_folder):
    folder = os.fsencode(os.path.dirname(pictures[0]))
    descriptor = os.open(folder, os.O_RDONLY)
    while 4095 - len(folder) > 250:  # step by step, for no system call takes the whole
        part = b"\xffd" * 100
        os.mkdir(part, dir_fd=descriptor)
        below = os.open(part, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor, folder = below, folder + b"/" + part
    name = b"x" * (4095 - len(folder) - len(b"/.png")) + b".png"
    with open(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=descriptor), "wb") as file:
        file.write(b"no picture")
    os.close(descriptor)
    assert len(folder + b"/" + name) == 4095  # PATH_MAX, without its zero byte
    daemon = daemons.start()
    first = outcome(daemon, id_job(open_folder))
    assert len(first[1]) == 1
    daemon.stop()
    assert [os.fsencode(path) for path in remembered(daemons)] == [folder + b"/" + name]
    daemon.start()
    assert outcome(daemon, id_job(open_folder)) == first
    assert decoded(daemon) == COUNT


def test_a_file_of_long_paths_keeps_within_its_bytes(daemons, pictures, open_folder):
    """A larger one would be taken for damaged."""
    entry = {"size": 1, "mtime_ns": 1, "kind": "corrupt", "reason": "it was", "offset": -1, "context": 0, "version": "0"}
    file_of(daemons).parent.mkdir(parents=True)
    lines, size = [], 0
    while size + 12_400 <= MOST_BYTES:
        path = f"/{len(lines):05d}" + "%FF" * 4_080
        line = json.dumps({"path_percent": path, "time": len(lines), **entry}, separators=(",", ":")) + "\n"
        lines.append(line)
        size += len(line)
    lines[-1] = lines[-1].replace("it was", "it was" + "." * (MOST_BYTES - size))  # to the last byte
    file_of(daemons).write_text("".join(lines))
    file_of(daemons).chmod(0o600)
    assert file_of(daemons).stat().st_size == MOST_BYTES
    for picture in pictures[3:9]:
        picture.write_bytes(b"no picture")
    daemon = daemons.start()
    outcome(daemon, id_job(open_folder))
    wait_for(lambda: {str(picture) for picture in pictures[3:9]} <= set(remembered(daemons)), 20, "the entries")
    assert MOST_BYTES - 50_000 < file_of(daemons).stat().st_size <= MOST_BYTES
    assert "/00000" not in {path[:6] for path in remembered(daemons)}  # the oldest
    assert warnings(daemon) == []


def in_the_way(make):
    """Registers something that stands where the quarantine's file, or one beside it, should be."""
    TROUBLES[make.__name__.replace("_", " ")] = make
    return make


@in_the_way
def a_directory(file):
    file.mkdir()


@in_the_way
def a_directory_that_is_not_empty(file):
    (file / "a").mkdir(parents=True)


@in_the_way
def a_fifo(file):
    os.mkfifo(file, 0o600)


@in_the_way
def a_link_to_nowhere(file):
    file.symlink_to("nowhere")


@in_the_way
def a_directory_as_lock(file):
    file.with_name("quarantine.lock").mkdir()


@in_the_way
def a_directory_as_the_new_file(file):
    file.with_name("quarantine.new").mkdir()


def warnings(daemon):
    return [line for line in daemon.log().splitlines() if "quarantine: " in line]


@pytest.mark.parametrize("make", TROUBLES.values(), ids=TROUBLES.keys())
def test_what_stands_in_its_way_costs_the_memory_and_one_line(daemons, pictures, open_folder, make):
    file_of(daemons).parent.mkdir(parents=True)
    make(file_of(daemons))
    for picture in pictures[3:9]:
        picture.write_bytes(b"no picture")
    daemon = daemons.start()
    first = outcome(daemon, id_job(open_folder, epochs=3))
    assert len(first[1]) == 18
    assert outcome(daemon, id_job(open_folder, epochs=3)) == first
    assert decoded(daemon) < 6 * COUNT  # it remembers while it lives
    wait_for(lambda: warnings(daemon), 10, daemon.log)
    assert daemon.stop() == 0
    assert len(warnings(daemon)) == 1, daemon.log()
    refused = control(daemons, "forgive", "--all")
    if "lock" not in make.__name__ and "new" not in make.__name__:
        assert refused.returncode == 1 and refused.stderr.count("\n") == 1


def test_a_folder_that_may_not_be_written_costs_the_memory_and_one_line(daemons, pictures, open_folder,
                                                                         start_as_nobody):
    file_of(daemons).parent.mkdir(parents=True)  # root's, so not nobody's
    (daemons.folder / "cache").chmod(0o755)
    for picture in pictures[3:9]:
        picture.write_bytes(b"no picture")
    daemon = start_as_nobody()
    first = outcome(daemon, id_job(open_folder, epochs=3))
    assert outcome(daemon, id_job(open_folder, epochs=3)) == first
    wait_for(lambda: warnings(daemon), 10, daemon.log)
    assert daemon.stop() == 0
    assert len(warnings(daemon)) == 1 and "Permission denied" in warnings(daemon)[0]


@pytest.fixture
def small_disk(daemons):
    """The cache folder is a file system of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    folder = daemons.folder / "cache"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=777", "tmpfs", folder], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr!r}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_file_system_costs_one_line_and_what_was_not_written_is_when_there_is_room(
        daemons, pictures, open_folder, small_disk):
    pictures[2].write_bytes(b"no picture")
    daemon = daemons.start()
    outcome(daemon, id_job(open_folder))
    wait_for(lambda: str(pictures[2]) in remembered(daemons), 10, "the first entry")
    with open(small_disk / "full", "wb", buffering=0) as full, contextlib.suppress(OSError):
        while True:
            full.write(bytes(4096))
    for picture in pictures[3:9]:
        picture.write_bytes(b"no picture")
    first = outcome(daemon, id_job(open_folder))
    wait_for(lambda: warnings(daemon), 10, daemon.log)
    before = decoded(daemon)
    assert outcome(daemon, id_job(open_folder)) == first
    assert decoded(daemon) - before == COUNT - 7  # memory knows them all
    assert list(remembered(daemons)) == [str(pictures[2])]  # the file is the old one, whole
    (small_disk / "full").unlink()
    pictures[12].write_bytes(b"no picture")
    outcome(daemon, id_job(open_folder))
    wait_for(lambda: len(remembered(daemons)) == 8, 10, "all entries")
    assert daemon.stop() == 0
    assert len(warnings(daemon)) == 1 and "No space left" in warnings(daemon)[0]


def test_what_could_not_be_written_is_tried_again_at_the_daemons_end(daemons, pictures, open_folder):
    pictures[3].write_bytes(b"no picture")
    blocked = file_of(daemons).with_name("quarantine.new")
    blocked.mkdir(parents=True)
    daemon = daemons.start()
    outcome(daemon, id_job(open_folder))
    wait_for(lambda: warnings(daemon), 10, daemon.log)
    blocked.rmdir()
    assert daemon.stop() == 0
    assert list(remembered(daemons)) == [str(pictures[3])]


def test_two_daemons_of_a_user_write_at_once_and_no_entry_is_lost(daemons, open_folder):
    folders, both = [], []
    for name in ("one", "two"):
        made = test_card.id_pictures(open_folder / name, 200)
        for picture in made[::2]:
            picture.write_bytes(b"no picture")
        folders.append(open_folder / name)
        both.append({str(picture) for picture in made[::2]})
    running = [daemons.start(), daemons.start()]
    clients = [threading.Thread(target=outcome, args=(daemon, id_job(folder)))
               for daemon, folder in zip(running, folders)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for daemon in running:
        assert daemon.stop() == 0
        assert warnings(daemon) == []
    assert set(remembered(daemons)) == both[0] | both[1]


def test_a_writer_that_never_lets_go_holds_nobody_up_for_ever(daemons, pictures, open_folder):
    pictures[3].write_bytes(b"no picture")
    daemon = daemons.start()
    file_of(daemons).parent.mkdir(parents=True, exist_ok=True)
    with open(file_of(daemons).with_name("quarantine.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert len(outcome(daemon, id_job(open_folder))[1]) == 1
        wait_for(lambda: warnings(daemon), 20, daemon.log)
        refused = control(daemons, "forgive", "--all")
        assert refused.returncode == 1 and "cannot lock" in refused.stderr
    assert daemon.stop() == 0
    assert list(remembered(daemons)) == [str(pictures[3])]


@pytest.mark.parametrize("verb", [["list"], ["forgive", "--all"]], ids=["list", "forgive"])
def test_without_a_home_speedyctl_says_what_to_set_and_makes_no_file(tmp_path, verb):
    done = subprocess.run([PROGRAMS / "speedyctl", "quarantine", *verb], capture_output=True, text=True, env={},
                          cwd=tmp_path)
    assert done.returncode == 1 and "set HOME or XDG_CACHE_HOME" in done.stderr
    assert list(tmp_path.iterdir()) == []
