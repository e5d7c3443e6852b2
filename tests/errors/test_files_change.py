"""Files that go, shrink or close themselves between the scan and the read (LDR-12, LDR-15)."""

import os
import threading

import pytest

import test_card
from support.capi import Client
from support.daemon import wait_for
from support.specs import id_spec

COUNT = 600


def held_open(daemon, folder):
    """Files of the set that the daemon has opened, and so measured, but not read."""
    return {link for link in daemon.descriptors().values() if link.startswith(str(folder))}


def when_it_rests(daemon, folder):
    """Waits until the stream waits for its consumer and nothing moves; the files held open."""
    before = None

    def rests():
        nonlocal before
        status = daemon.status()
        for stream in status["streams"]:
            del stream["consumer"]  # how long it has been waited for goes on
        last, before = before, (status["streams"], status["workers"], held_open(daemon, folder))
        idle = status["memory"]["input_used"] == 0 and not any(worker["held"] for worker in status["workers"])
        return idle and status["streams"][0]["waits_for_consumer"] and before == last and before[2]

    return wait_for(rests, 20)


@pytest.fixture
def resting(daemon, open_folder):
    """A stream in its own order whose ring is full: (its daemon, folder, stream, files open but not read)."""
    test_card.id_pictures(open_folder, COUNT)
    with Client(daemon.socket) as client:
        errors = {"policy": "placeholder", "max_failures": COUNT, "max_rate": 1}
        stream = client.open(id_spec(open_folder, batch=4, shuffle=False, errors=errors))
        yield open_folder, stream, when_it_rests(daemon, open_folder)
        stream.close()


def failures_of(stream):
    for _ in stream.batches():
        pass
    return {failure["path"]: failure for failure in stream.report()["failures"]}


def test_LDR_12_a_file_deleted_after_the_scan_is_not_found(resting):
    folder, stream, held = resting
    gone = [path for path in sorted(folder.glob("*/*.png"))[-30:] if str(path) not in held]
    assert gone
    for path in gone:
        path.unlink()
    failures = failures_of(stream)
    assert {path: failure["kind"] for path, failure in failures.items()} == \
        {str(path): "not_found" for path in gone}


def test_LDR_12_a_file_cut_between_measuring_and_reading_is_truncated(resting):
    _, stream, held = resting
    assert len(held) > 10
    for path in held:
        os.truncate(path, 40)
    failures = failures_of(stream)
    assert {path: failure["kind"] for path, failure in failures.items()} == dict.fromkeys(held, "truncated")
    for failure in failures.values():
        assert "became shorter" in failure["reason"] and failure["offset"] == 40


def test_LDR_12_a_file_that_grew_is_read_as_long_as_it_was(resting):
    _, stream, held = resting
    for path in held:
        with open(path, "ab") as file:
            file.write(b"more")
    assert failures_of(stream) == {}


def test_LDR_12_files_cut_and_rewritten_all_the_time_kill_nobody_and_never_pass_for_good(daemon, open_folder):
    paths = test_card.id_pictures(open_folder, 100)
    whole = [path.read_bytes() for path in paths]
    over = threading.Event()
    rounds = 0

    def disturb():
        nonlocal rounds
        while not over.is_set():
            for path, content in zip(paths, whole):
                os.truncate(path, len(content) // 2)
                path.write_bytes(content)
            rounds += 1

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        with Client(daemon.socket) as client:
            errors = {"policy": "placeholder", "max_failures": 100_000, "max_rate": 1}
            stream = client.open(id_spec(open_folder, batch=10, epochs=40, errors=errors))
            good = 0
            for batch in stream.batches():
                for i, flag, pixel in zip(batch.ids(), batch.valid(), batch.array("image")[:, 0, 0]):
                    assert test_card.id_of(pixel) == (i if flag else 0)
                    good += flag
            report = stream.report()
            stream.close()
    finally:
        over.set()
        disturber.join()
    assert rounds > 0 and good > 0 and good + report["failure_count"] == 40 * 100
    kinds = {failure["kind"] for failure in report["failures"]}
    assert kinds <= {"truncated", "empty", "corrupt", "unsupported_format"}
    assert daemon.status()["worker_deaths"] == 0


def test_LDR_15_a_file_that_its_user_may_not_read_is_denied(start_as_nobody, open_folder):
    test_card.id_pictures(open_folder, 20)
    paths = sorted(open_folder.glob("*/*.png"))
    paths[7].chmod(0)
    daemon = start_as_nobody()
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(open_folder, batch=4, errors={"policy": "placeholder"}))
        failures = failures_of(stream)
        stream.close()
    assert {path: failure["kind"] for path, failure in failures.items()} == {str(paths[7]): "denied"}
    assert failures[str(paths[7])]["errno"] == 13
