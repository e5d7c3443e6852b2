"""What `sl.Loader` tells of itself (sizes, counters, reports) and which daemon it asks."""

import json
import os
import pathlib
import signal

import pytest
import speedyloader as sl
import test_card
from loaders import COUNT, TINY, WAIT_S, ids
from support.daemon import MARK, marked, wait_for

# ---- what a loader tells ----


def test_info_has_the_sizes(make):
    info = make(batch_size=12, last="keep", epochs=3, slots=5).info
    assert info == {"batch_size": 12, "batches_per_epoch": 4, "samples": COUNT, "epochs": 3, "first_epoch": 0,
                    "first_batch": 0, "slots": 5, "daemon_version": sl.__version__}


def test_classes_are_the_folders_names_by_label(make, folder):
    loader = make(epochs=1)
    assert loader.classes == ["class_000", "class_001", "class_002"] == sorted(os.listdir(folder))
    names = [path.parent.name for path in sorted(folder.glob("*/*.png"))]
    for batch in loader:
        assert [loader.classes[label] for label in batch.numpy("label")] == [names[i] for i in ids(batch)]


COUNTERS = {"batches", "samples", "ready", "failed", "substituted", "warnings", "retried", "bytes_read",
            "waits", "slots", "held", "copied", "reconnects"}
SECONDS = {"decode_s", "wait_s", "ring_full_s"}
SHARES = {"prediction_error", "class_errors"}


def test_stats_count_an_epoch_in_whole_numbers_and_seconds(make, folder):
    loader = make(epochs=1, slots=3)
    before = loader.stats()
    assert before.keys() == COUNTERS | SECONDS | SHARES | {"lanes"}
    assert (before["held"], before["copied"], before["slots"]) == (0, 0, 3)
    batches = iter(loader)
    held = [next(batches)]
    assert loader.stats()["held"] == 1
    del held
    assert sum(1 for _ in batches) == 4
    stats = loader.stats()
    assert all(type(stats[name]) is int for name in COUNTERS)
    assert all(type(stats[name]) is float and 0 <= stats[name] < 600 for name in SECONDS)
    assert (stats["batches"], stats["samples"]) == (5, COUNT)
    assert (stats["failed"], stats["substituted"], stats["warnings"], stats["held"]) == (0, 0, 0, 0)
    assert stats["lanes"].keys() == {"light", "medium", "heavy"}
    assert sum(stats["lanes"].values()) == COUNT
    assert stats["bytes_read"] == sum(file.stat().st_size for file in folder.glob("*/*.png"))
    # Microseconds of each sample's decoding add up to the seconds of all: neither number is in another unit.
    loader.reset()
    microseconds = sum(sample["actual_us"] for batch in loader for sample in batch.samples())
    assert loader.stats()["decode_s"] == pytest.approx(microseconds * 1e-6, rel=0.1, abs=1e-3)


def test_wait_s_is_the_jobs_and_ring_full_s_the_datas_waiting(daemons, folder):
    """A stopped worker makes the job wait; a job that takes nothing makes finished data wait."""
    daemon = daemons.start(workers=1)
    with sl.Loader(folder, TINY, batch_size=8, slots=1, timeout=WAIT_S, socket=daemon.socket) as loader:
        wait_for(lambda: loader.report()["stats"]["waits_for_consumer"], WAIT_S)
        assert loader.stats()["wait_s"] == loader.stats()["waits"] == 0
        next(iter(loader))  # the slot is free again, and the wait for it is counted
        assert wait_for(lambda: loader.stats()["ring_full_s"] > 0, WAIT_S)
    (worker,) = daemon.worker_pids()
    os.kill(worker, signal.SIGSTOP)
    try:
        with sl.Loader(folder, TINY, batch_size=8, timeout=0.2, socket=daemon.socket) as loader:
            with pytest.raises(sl.WaitTimeout):
                next(iter(loader))
            assert loader.stats()["wait_s"] >= 0.1 and loader.stats()["waits"] >= 1
            assert loader.stats()["ring_full_s"] == 0
    finally:
        os.kill(worker, signal.SIGCONT)


@pytest.fixture
def damaged(open_folder):
    """(folder, {path: kind}): 20 whole pictures and three damaged ones."""
    kinds = test_card.damaged_folder(open_folder / "a")
    del kinds["gone.jpg"]  # a link that leads nowhere is no sample
    return open_folder, {str(open_folder / "a" / name): kind for name, kind in kinds.items()}


def test_the_report_names_every_failed_sample_with_path_kind_and_reason(make, damaged):
    folder, kinds = damaged
    paths = sorted(str(path) for path in (folder / "a").iterdir() if path.exists())
    loader = make(folder, errors="placeholder", last="keep", epochs=1)
    invalid = {i for batch in loader for i, valid in zip(ids(batch), batch.numpy("valid"), strict=True)
               if not valid}
    report = loader.report()
    assert {failure["path"]: failure["kind"] for failure in report["failures"]} == kinds
    for failure in report["failures"]:
        assert paths[failure["sample_id"]] == failure["path"] and failure["reason"]
        assert (failure["epoch"], failure["substitute"]) == (0, None)
    assert invalid == {failure["sample_id"] for failure in report["failures"]}
    (epoch,) = report["epochs"]
    assert (epoch["planned"], epoch["delivered"], epoch["failed"]) == (23, 20, 3)
    assert epoch["missing"] == epoch["repeated"] == 0 and epoch["complete"] is True
    assert loader.stats()["failed"] == 3


def test_refilled_rows_say_whose_place_they_took(make, damaged):
    folder, kinds = damaged
    loader = make(folder, last="keep", epochs=1, seed=1)
    samples = [sample for batch in loader for sample in batch.samples()]
    substituted = {sample["planned_id"]: sample["sample_id"] for sample in samples
                   if sample["planned_id"] != sample["sample_id"]}
    failures = {failure["sample_id"]: failure for failure in loader.report()["failures"]}
    assert {failure["path"] for failure in failures.values()} == kinds.keys()
    assert substituted == {i: failure["substitute"] for i, failure in failures.items() if i in substituted}
    assert sorted(sample["planned_id"] for sample in samples) == list(range(23))
    assert loader.stats()["substituted"] == len(substituted) == 3


def test_repr_says_what_is_read_and_how_long_an_epoch_is(make, folder):
    loader = make()
    assert repr(loader) == f"<speedyloader.Loader {folder}: 5 batches an epoch>"
    batch = next(iter(loader))
    assert repr(batch).startswith("<speedyloader.Batch 0 of epoch 0: image: uint8[8, 3, 2, 2], label: ")


def loaders_of(traceback):
    """The loaders among the variables of a traceback."""
    values = [value for entry in traceback for value in entry.locals.values()]
    return [value for value in values if isinstance(value, sl.Loader)]


@pytest.mark.parametrize("dataset, why", [("/nowhere", sl.NotFoundError), (3, sl.SpecError)])
def test_repr_of_a_loader_whose_opening_failed_says_so(make, dataset, why):
    """A traceback with variables shows it."""
    with pytest.raises(why) as failed:
        make(dataset)
    shown = {repr(loader) for loader in loaders_of(failed.traceback)}
    assert shown == {"<speedyloader.Loader that could not be opened>"}


# ---- which daemon ----


def streams(daemon):
    return len(daemon.status()["streams"])


def test_the_argument_is_stronger_than_SPEEDYLOADER_SOCKET_and_that_than_all_else(daemons, folder,
                                                                                  monkeypatch):
    named, of_the_environment = daemons.start(workers=1), daemons.start(workers=1)
    monkeypatch.setenv("SPEEDYLOADER_SOCKET", str(of_the_environment.socket))
    for socket in (str(named.socket), pathlib.Path(named.socket)):
        with sl.Loader(folder, TINY, batch_size=8, socket=socket):
            assert (streams(named), streams(of_the_environment)) == (1, 0)
    with sl.Loader(folder, TINY, batch_size=8):
        wait_for(lambda: (streams(named), streams(of_the_environment)) == (0, 1))


def test_without_any_socket_a_private_daemon_is_started(folder, private_name):
    with sl.Loader(folder, TINY, batch_size=8, epochs=1, timeout=WAIT_S) as loader:
        assert len(list(loader)) == 5
        assert "speedyloaderd" in marked(os.environ[MARK]).values()


def test_the_daemon_is_told_the_programs_name(daemon, folder, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/train.py", "--lr", "1"])
    with sl.Loader(folder, TINY, batch_size=8, socket=daemon.socket):
        assert '"train.py"' in json.dumps(daemon.status())
