"""What a daemon learns about its samples' costs outlives it: the next one over the same files starts knowing.

Real daemons over real photographs in several codings, whose costs cannot be told from their sizes alone.
"""

import os
import shutil

import pytest
from PIL import Image

from support.capi import Client
from support.specs import spec

START = 200  # samples that a report counts apart
SAMPLES = 280


def save(picture, path, number):
    """The same photograph may cost ten times more than its neighbour."""
    match number % 4:
        case 0:
            picture.save(path.with_suffix(".jpg"), quality=90)
        case 1:
            picture.save(path.with_suffix(".jpg"), quality=90, progressive=True)
        case 2:
            picture.save(path.with_suffix(".tif"), compression="tiff_lzw")
        case 3:
            picture.resize((2 * picture.width, 2 * picture.height)).save(path.with_suffix(".jpg"), quality=40)


@pytest.fixture(scope="module")
def folder(photos, tmp_path_factory):
    made = tmp_path_factory.mktemp("codings") / "class"
    made.mkdir()
    sources = sorted(photos.rglob("*.jpg"))
    for number in range(SAMPLES):
        with Image.open(sources[number % len(sources)]) as picture:
            save(picture.convert("RGB"), made / f"{number:04}", number)
    return made.parent


def predictions(daemon, folder, seed, epochs=1):
    """A stream to its end; what its report says about its predictions."""
    with Client(daemon.socket) as client:
        stream = client.open(spec(folder, size=(64, 64), seed=seed, epochs=epochs))
        assert sum(batch.valid().count(1) for batch in stream.batches()) == SAMPLES * epochs
        found = stream.report()["stats"]["prediction"]
        stream.close()
    return found


def knows(found):
    """Whether the samples after the start had been decoded before."""
    assert found["start"]["samples"] == START
    known, new = found["warm"]["samples"], found["first_epoch"]["samples"]
    assert (known, new) in [(SAMPLES - START, 0), (0, SAMPLES - START)]
    return known > 0


def cost_file(daemons):
    files = list((daemons.folder / "cache" / "speedyloader" / "costs").iterdir())
    assert len(files) == 1
    return files[0]


def test_the_second_run_starts_knowing(daemons, folder):
    first_daemon = daemons.start()
    first = predictions(first_daemon, folder, seed=1)
    assert first_daemon.stop() == 0
    second = predictions(daemons.start(), folder, seed=2)
    assert not knows(first) and knows(second)
    assert second["samples_known"] == SAMPLES
    # The first was not ignorant either, for it had looked at headers; this one takes all for average.
    average = predictions(daemons.start("--no-predict"), folder, seed=2)
    assert second["start"]["mape"] < 0.5 * average["start"]["mape"]


def test_streams_of_one_daemon_share_what_they_learn(daemon, folder):
    with Client(daemon.socket) as client:
        first = client.open(spec(folder, size=(64, 64), seed=1))
        assert sum(1 for _ in first.batches()) > 0
        second = predictions(daemon, folder, seed=2)  # opened while the first is there
        assert knows(second) and second["samples_known"] == SAMPLES
        first.close()


def test_another_pipeline_learns_by_itself(daemons, folder):
    daemon = daemons.start()
    predictions(daemon, folder, seed=1)
    with Client(daemon.socket) as client:
        stream = client.open(spec(folder, size=(32, 32), seed=1))
        assert stream.report()["stats"]["prediction"]["samples_known"] < SAMPLES
        stream.close()


def test_files_that_have_changed_are_learned_anew(daemons, folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    first = daemons.start()
    predictions(first, own, seed=1)
    first.stop()
    for path in own.rglob("*.*"):
        with open(path, "ab") as file:
            file.write(b"\0" * 100)  # behind the picture's end: other bytes, the same pixels
    assert not knows(predictions(daemons.start(), own, seed=1))


def damaged(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def cut(path):
    os.truncate(path, 1000)


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [damaged, cut, a_pipe])
def test_a_damaged_cost_file_is_begun_anew_with_one_line_in_the_log(daemons, folder, damage):
    first = daemons.start()
    predictions(first, folder, seed=1)
    first.stop()
    damage(cost_file(daemons))
    second = daemons.start()
    assert not knows(predictions(second, folder, seed=1))
    assert second.stop() == 0
    assert second.log().count("is begun anew") == 1
    third = daemons.start()
    assert knows(predictions(third, folder, seed=1))
    assert "begun anew" not in third.log()


def test_a_cache_folder_that_cannot_be_made_costs_no_sample(daemons, folder):
    no_folder = daemons.folder / "file"
    no_folder.write_text("in the way")
    daemon = daemons.start(env={"XDG_CACHE_HOME": no_folder})
    predictions(daemon, folder, seed=1)
    assert daemon.stop() == 0
    assert daemon.log().count("costs are not kept") == 1


def test_a_daemon_that_is_killed_leaves_a_good_file_or_none(daemons, folder):
    first = daemons.start()
    predictions(first, folder, seed=1)
    first.stop()
    for _ in range(3):
        killed = daemons.start()
        with Client(killed.socket) as client:
            stream = client.open(spec(folder, size=(64, 64), seed=1))
            stream.next()
            stream.close()  # its costs are being written
            killed.kill()
    last = daemons.start()
    assert knows(predictions(last, folder, seed=1))
    assert "begun anew" not in last.log()


def test_equal_files_are_all_light_and_the_status_names_what_classes_cost(daemon, photos, tmp_path):
    made = tmp_path / "equal" / "class"
    made.mkdir(parents=True)
    content = next(photos.rglob("*.jpg")).read_bytes()
    for number in range(300):
        (made / f"{number}.jpg").write_bytes(content)
    with Client(daemon.socket) as client:
        # No random crop: all that could tell them apart.
        job = spec(made.parent, size=(64, 64))
        job["pipeline"][1] = {"op": "resize", "size": [64, 64]}
        stream = client.open(job)
        assert sum(1 for _ in stream.batches()) > 0
        found = stream.report()["stats"]
        shown = client.status()["streams"][0]["prediction"]
        stream.close()
    assert found["lanes"]["light"]["samples"] == 300
    assert found["lanes"]["medium"]["samples"] == found["lanes"]["heavy"]["samples"] == 0
    assert shown["medium_from_ms"] == pytest.approx(4 * shown["typical_ms"])
    assert shown["heavy_from_ms"] == pytest.approx(16 * shown["typical_ms"])
    assert set(shown["warm"]) == {"samples", "mape", "bias", "class_errors"}
    assert -1 <= shown["rank_correlation"] <= 1
