"""A sample that was never decoded is known by its header before its turn, and a header never costs a sample.

Real daemons. The workers are slowed down a little, so that samples wait for them and not they for samples:
where a worker can start a sample at once nobody asks for its header.
"""

import hashlib

import pytest
from PIL import Image

from support.capi import Client
from support.specs import spec

SAMPLES = 320
START = 64  # by then both codings have been decoded
SLOWED = {"SPEEDYLOADER_TEST_DELAY_US": 1000}


def photographs(photos, folder, save):
    """SAMPLES times the same photograph, saved by save(picture, path, number)."""
    (folder / "class").mkdir(parents=True)
    with Image.open(sorted(photos.rglob("*.jpg"))[0]) as picture:
        rgb = picture.convert("RGB").resize((400, 300))
    for number in range(SAMPLES):
        save(rgb, folder / "class" / f"{number:04}.jpg", number)
    return folder


def deliver(daemon, folder, **options):
    """A stream to its end: its rows in order as (sample id, what is known of it), a hash of all that it
    delivered, and its report."""
    rows = []
    content = hashlib.sha256()
    with Client(daemon.socket) as client:
        stream = client.open(spec(folder, **options))
        for batch in stream.batches():
            rows += batch.samples()
            content.update(bytes(batch.raw("image")[2]))
        report = stream.report()
        stream.close()
    assert sorted(row.sample_id for row in rows if row.valid) == sorted(
        list(range(SAMPLES)) * options.get("epochs", 1))
    return rows, content.hexdigest(), report


@pytest.mark.parametrize("policy", ["strict", "ready"])
def test_progressive_files_among_baseline_ones_are_told_before_they_start(daemons, photos, tmp_path, policy):
    def save(picture, path, number):
        """About as many bytes, and several times the work."""
        picture.save(path, quality=85 if number % 5 else 86, progressive=number % 5 == 0)

    folder = photographs(photos, tmp_path / "set", save)
    rows, _, _ = deliver(daemons.start(env=SLOWED), folder, policy=policy, dtype="uint8")
    later = rows[START:]
    progressive = [row.predicted_us for row in later if row.sample_id % 5 == 0]
    baseline = [row.predicted_us for row in later if row.sample_id % 5]
    border = 1.5 * sorted(baseline)[len(baseline) // 2]
    assert sum(cost > border for cost in progressive) > 0.8 * len(progressive)
    assert sum(cost > border for cost in baseline) < 0.1 * len(baseline)


@pytest.mark.parametrize("deed", ["ABORT", "HANG"])
def test_a_file_that_ends_its_worker_by_its_header_is_delivered_and_nobody_is_blamed(daemons, photos, tmp_path,
                                                                                     deed):
    def save(picture, path, number):
        bad = number % 64 == 40 if deed == "ABORT" else number == 150
        picture.save(path, comment=f"SL-TEST-HEADER-{deed}" if bad else "")

    folder = photographs(photos, tmp_path / "set", save)
    # With a cache of its own, else the other one knew the samples.
    undisturbed = daemons.start("--no-predict", env=SLOWED | {"XDG_CACHE_HOME": tmp_path / "cache"})
    _, expected, _ = deliver(undisturbed, folder)
    assert undisturbed.status()["worker_deaths"] == 0  # nobody looks at headers for nothing
    limit = {"SPEEDYLOADER_TEST_JOB_LIMIT_S": 2} if deed == "HANG" else {}
    daemon = daemons.start(env=SLOWED | limit)
    _, content, report = deliver(daemon, folder)
    assert content == expected
    assert report["failures"] == []
    assert report["stats"]["retried"] == 0
    deaths = daemon.status()["worker_deaths"]
    assert 1 <= deaths <= 5, daemon.log()
    # Each sample has been decoded by now: a header is not looked at again.
    _, content, _ = deliver(daemon, folder)
    assert content == expected
    assert daemon.status()["worker_deaths"] == deaths


def test_a_file_that_is_poison_is_poison_whatever_its_header_does(daemons, photos, tmp_path):
    def save(picture, path, number):
        picture.save(path)
        if number == 200:
            path.write_bytes(b"SL-TEST-ABORT and SL-TEST-HEADER-ABORT")

    folder = photographs(photos, tmp_path / "set", save)
    daemon = daemons.start(env=SLOWED)
    with Client(daemon.socket) as client:
        stream = client.open(spec(folder, errors={"policy": "placeholder"}))
        valid = sum(batch.valid().count(1) for batch in stream.batches())
        (failure,) = stream.report()["failures"]
        stream.close()
    assert valid == SAMPLES - 1
    assert (failure["kind"], failure["sample_id"]) == ("poison", 200)
    assert failure["reason"].startswith("its worker process died each time it was decoded")
    assert 2 <= daemon.status()["worker_deaths"] <= 3


def test_damaged_headers_fail_as_they_do_without_predictions(daemons, photos, tmp_path):
    def save(picture, path, number):
        picture.save(path)
        if number % 16 == 9:
            content = path.read_bytes()
            path.write_bytes([content[:15], b"\xff\xd8\xff" + bytes(300), b"no picture", b"BM" + bytes(60),
                              content[: len(content) // 2]][number // 16 % 5])

    folder = photographs(photos, tmp_path / "set", save)
    found = []
    for flags in (["--no-predict"], []):
        daemon = daemons.start(*flags, env=SLOWED | {"XDG_CACHE_HOME": tmp_path / f"cache{len(flags)}"})
        with Client(daemon.socket) as client:
            stream = client.open(spec(folder, errors={"policy": "placeholder"}))
            assert sum(batch.valid().count(1) for batch in stream.batches()) == SAMPLES - 20
            failures = stream.report()["failures"]
            stream.close()
        found.append(sorted((f["sample_id"], f["kind"], f["reason"], f["offset"]) for f in failures))
        assert daemon.status()["worker_deaths"] == 0
    assert len(found[0]) == 20 and found[0] == found[1]
