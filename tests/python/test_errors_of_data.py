"""Errors by what there is to read, folders and damaged samples: class, words and attributes of each."""

import os
import pickle
import re

import pytest
import speedyloader as sl
import test_card
from loaders import open_in_order, same

# ---- folders ----


def test_a_folder_that_is_not_there_is_a_NotFoundError_with_its_name(shared_daemon, tmp_path):
    with pytest.raises(sl.NotFoundError) as missing:
        open_in_order(shared_daemon, tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(missing.value)
    assert missing.value.code == "SL_E_NOT_FOUND" and missing.value.errno == 2


@pytest.mark.parametrize("files", [(), ("a/notes.txt",)], ids=["empty", "without pictures"])
def test_a_folder_without_pictures_is_a_DatasetError_with_its_name(shared_daemon, tmp_path, files):
    for name in files:
        test_card.junk(tmp_path / name)
    with pytest.raises(sl.DatasetError, match=re.escape(str(tmp_path))) as refused:
        open_in_order(shared_daemon, tmp_path)
    assert refused.value.code == "SL_E_DATASET"


def test_a_file_in_place_of_a_folder_is_an_Error_with_its_name(shared_daemon, tmp_path):
    file = test_card.write_jpeg(tmp_path / "a.jpg")
    with pytest.raises(sl.Error, match=re.escape(str(file))):
        open_in_order(shared_daemon, file)


def test_a_folder_that_the_daemon_may_not_read_is_a_DeniedError_with_its_name(start_as_nobody, tmp_path,
                                                                              id_set):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    daemon = start_as_nobody()
    with pytest.raises(sl.DeniedError, match=re.escape(str(closed))) as denied:
        open_in_order(daemon, closed)
    assert denied.value.code == "SL_E_DENIED" and denied.value.errno == 13
    assert len(list(open_in_order(daemon, id_set(40)))) == 5


def test_fewer_pictures_than_a_batch_is_a_SpecError_with_both_numbers(shared_daemon, id_set):
    with pytest.raises(sl.SpecError, match=r"\b12\b.*\b64\b"):
        open_in_order(shared_daemon, id_set(12), batch_size=64, last="drop")


@pytest.mark.parametrize("kind", ["file_list", "webdataset", "npy", "nifti", "audio", "tokens", "table"])
def test_a_kind_of_data_set_that_comes_later_is_an_UnsupportedError(shared_daemon, kind):
    with pytest.raises(sl.UnsupportedError, match=kind):
        sl.Loader.from_spec({"dataset": {"kind": kind, "path": "/data"}}, socket=shared_daemon.socket)
    with pytest.raises(sl.SpecError, match="dataset.kind"):
        sl.Loader.from_spec({"dataset": {"kind": "folders", "path": "/data"}}, socket=shared_daemon.socket)


# ---- samples ----


@pytest.fixture
def broken(open_folder):
    """(folder, path of the damaged picture): sample 9 of 20 is cut off after 60 percent of its bytes."""
    whole = test_card.write_jpeg(open_folder / "a" / "00.jpg")
    for number in range(1, 20):
        test_card.write_jpeg(open_folder / "a" / f"{number:02d}.jpg", quality=60 + number)
    return open_folder, test_card.cut(whole, open_folder / "a" / "09.jpg", share=0.6)


def run_to_the_error(job, kind):
    """(ids before it, the exception)."""
    seen = []
    with pytest.raises(kind) as stopped:
        for batch in job:
            seen += batch.numpy("sample_id").tolist()
    return seen, stopped.value


def test_under_errors_fail_a_damaged_file_is_a_SampleError_at_its_batch(shared_daemon, broken):
    folder, path = broken
    job = open_in_order(shared_daemon, folder, errors="fail")
    seen, error = run_to_the_error(job, sl.SampleError)
    assert seen == list(range(8))
    assert (error.sample_id, error.path, error.kind, error.code) == (9, str(path), "truncated", "SL_E_SAMPLE")
    assert 0 < error.offset <= path.stat().st_size
    assert str(path) in str(error) and "sample 9" in str(error) and "truncated" in str(error)
    assert same(pickle.loads(pickle.dumps(error)), error)


def test_after_a_SampleError_the_report_names_the_file_and_the_position_is_before_it(shared_daemon, broken):
    folder, path = broken
    job = open_in_order(shared_daemon, folder, errors="fail")
    batches = iter(job)
    first = next(batches)
    for _ in range(2):  # and again at every later call
        with pytest.raises(sl.SampleError):
            next(batches)
    (failure,) = job.report()["failures"]
    assert (failure["path"], failure["kind"], failure["batch"]) == (str(path), "truncated", 1)
    assert job.stats()["failed"] == 1
    state = job.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 1)
    assert first.numpy("sample_id").tolist() == list(range(8))
    test_card.write_jpeg(path)
    job.load_state_dict(state)
    assert [i for batch in job for i in batch.numpy("sample_id").tolist()] == list(range(8, 20))


@pytest.mark.parametrize("spoil, kind", [(test_card.empty, "empty"), (test_card.junk, "unsupported_format")],
                         ids=["empty", "junk"])
def test_the_kind_of_a_SampleError_says_what_is_wrong_with_the_file(shared_daemon, broken, spoil, kind):
    folder, path = broken
    spoil(path)
    _, error = run_to_the_error(open_in_order(shared_daemon, folder, errors="fail"), sl.SampleError)
    assert (error.path, error.kind, error.errno) == (str(path), kind, None)


def test_a_file_that_the_daemon_may_not_read_is_a_SampleError_with_the_systems_number(start_as_nobody, broken):
    folder, path = broken
    path.chmod(0)
    job = open_in_order(start_as_nobody(), folder, errors="fail")
    _, error = run_to_the_error(job, sl.SampleError)
    assert (error.sample_id, error.path, error.kind, error.errno) == (9, str(path), "denied", 13)
    assert error.offset is None


def test_a_name_that_is_not_utf8_is_shown_as_python_shows_it(shared_daemon, broken):
    folder, path = broken
    name = os.fsencode(path.parent) + b"/09\xff\xe9.jpg"
    os.rename(path, name)
    _, error = run_to_the_error(open_in_order(shared_daemon, folder, errors="fail"), sl.SampleError)
    assert error.path == os.fsdecode(name) and os.path.exists(error.path)
    assert error.path in str(error)
    assert same(pickle.loads(pickle.dumps(error)), error)


@pytest.mark.parametrize("policy", ["refill", "placeholder"])
def test_beyond_max_failures_the_stream_stops_and_the_report_names_each(shared_daemon, broken, policy):
    folder, path = broken
    others = [test_card.junk(folder / "a" / f"{number}.jpg") for number in (12, 13)]
    assert len(list(open_in_order(shared_daemon, folder, errors=policy, max_failures=3))) == 3
    job = open_in_order(shared_daemon, folder, errors=policy, max_failures=2)
    seen, error = run_to_the_error(job, sl.TooManyFailuresError)
    assert len(seen) == 8
    assert error.code == "SL_E_TOO_MANY_FAILURES"
    assert re.search(r"\b3 samples\b.*max_failures is 2\b", str(error))
    assert {failure["path"] for failure in job.report()["failures"]} >= {str(path), *map(str, others)}
    assert same(pickle.loads(pickle.dumps(error)), error)
