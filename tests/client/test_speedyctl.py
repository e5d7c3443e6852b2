"""speedyctl as people and scripts meet it: exit statuses, the JSON object, Ctrl-C, wrong use.

Run by pytest against the programs below $SL_BUILD_DIR. Each run has a private daemon of its own.
"""

import json
import os
import pathlib
import signal
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("SL_BUILD_DIR", "build/dev")).resolve() / "bin"
COUNT = 40
KEYS = {
    "samples", "batches", "seconds", "samples_per_s", "cpu_s_per_1k", "first_batch_s", "wait_p50_ms", "wait_p99_ms",
    "wait_total_s", "lanes", "mape", "failed", "substituted", "reconnects",
    "accounted", "epochs",
}  # fmt: skip


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos") / "set"
    made = [BUILD / "sl_make_photos", folder, "--count", str(COUNT), "--classes", "2", "--seed", "7"]
    subprocess.run(made, check=True, capture_output=True)
    return folder


@pytest.fixture
def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEEDYLOADER_")}
    return kept | {"SPEEDYLOADER_PRIVATE_NAME": f"ctl-test-{os.getpid()}"}


@pytest.fixture
def speedyctl(environment):
    def call(*arguments):
        command = [BUILD / "speedyctl", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)

    return call


def test_a_run_accounts_for_every_sample_and_exits_with_zero(speedyctl, photos):
    done = speedyctl("run", photos, "--epochs", 2, "--batch", 7, "--json", "--ids")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert KEYS <= result.keys()
    assert result["accounted"] is True
    assert result["samples"] == 2 * COUNT
    assert result["batches"] == 12
    assert [sorted(ids) for ids in result["ids"]] == [list(range(COUNT))] * 2
    assert result["ids"][0] != result["ids"][1]
    assert sum(lane["samples"] for lane in result["lanes"].values()) == 2 * COUNT


def test_the_hash_is_the_same_for_any_number_of_workers_and_differs_by_seed_and_epoch(speedyctl, photos):
    def hashes(*arguments):
        done = speedyctl("run", photos, "--epochs", 2, "--json", "--hash", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["epoch_hashes"]

    first = hashes("--workers", 1)
    assert hashes("--workers", 3) == first
    assert first[0] != first[1]
    assert hashes("--workers", 1, "--seed", 1) != first


def test_the_summary_for_people_names_each_figure(speedyctl, photos):
    done = speedyctl("run", photos)
    assert done.returncode == 0, done.stderr
    for name in ("samples/s", "CPU", "waiting", "lanes", "prediction error", "accounted for"):
        assert name in done.stdout
    assert done.stderr == ""  # no progress bar where nobody looks


def test_a_limited_run_is_good_and_not_judged(speedyctl, photos):
    done = speedyctl("run", photos, "--batch", 4, "--limit-batches", 3, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["batches"], result["samples"], result["accounted"]) == (3, 12, None)


def test_an_interrupted_run_sums_up_what_it_has_and_exits_with_130(environment, photos):
    command = [BUILD / "speedyctl", "run", photos, "--epochs", "1000000", "--batch", "4"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_until_a_stream_is_open(environment)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    finally:
        started.kill()
    assert started.returncode == 130, err
    assert "interrupted" in out


def wait_until_a_stream_is_open(environment):
    for _ in range(600):
        asked = subprocess.run([BUILD / "speedyctl", "status", "--json"], capture_output=True, env=environment, timeout=30)
        if asked.returncode == 0 and any(s["batches"] > 0 for s in json.loads(asked.stdout)["streams"]):
            return
    raise AssertionError("no stream was opened")


def test_a_spec_file_streams_as_it_says(speedyctl, photos, tmp_path):
    spec = {
        "dataset": {"kind": "image_folder", "path": str(photos)},
        "pipeline": [{"op": "decode", "channels": 3}, {"op": "random_resized_crop", "size": [16, 16]}],
        "output": {"dtype": "uint8", "layout": "NHWC"},
        "batch": {"size": 8, "last": "drop"},
        "epochs": 3,
    }
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec))
    result = json.loads(speedyctl("run", file, "--json").stdout)
    assert (result["samples"], result["batches"]) == (3 * COUNT, 15)
    changed = json.loads(speedyctl("run", file, "--json", "--epochs", 1, "--batch", 20).stdout)
    assert (changed["samples"], changed["batches"]) == (COUNT, 2)


def test_a_scan_counts_samples_and_what_it_left_out(speedyctl, photos):
    done = speedyctl("scan", photos, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["samples"] == COUNT
    assert found["skipped_files"]["hidden"]["count"] == 1  # the maker's own mark


def test_status_starts_no_daemon(speedyctl, environment):
    environment["SPEEDYLOADER_PRIVATE_NAME"] += "-nobody"
    for _ in range(2):
        done = speedyctl("status")
        assert done.returncode == 1
        assert "no daemon is running" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-verb"],
        ["run"],
        ["run", "/nonexistent"],
        ["run", "/", "--no-such-option"],
        ["run", "/", "--policy", "sometimes"],
        ["run", "/", "--epochs", "0"],
        ["run", "/", "--ids"],
        ["run", "/", "--workers", "2", "--socket", "/x"],
        ["scan", "/nonexistent"],
    ],
)
def test_wrong_use_exits_with_two_and_a_word(speedyctl, arguments):
    done = speedyctl(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr != ""


def test_a_wrong_spec_exits_with_two_and_names_the_key(speedyctl, photos, tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"dataset": {"kind": "image_folder", "path": str(photos)}, "colour": 1}))
    done = speedyctl("run", file)
    assert done.returncode == 2
    assert "colour" in done.stderr


def test_a_socket_where_nobody_answers_is_a_failed_run(speedyctl, photos):
    done = speedyctl("run", photos, "--socket", "/nonexistent/socket")
    assert done.returncode == 1
    assert "/nonexistent/socket" in done.stderr
