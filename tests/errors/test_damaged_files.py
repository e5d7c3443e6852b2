"""Damaged files end to end: what the report says, and what stands in their place (IMG-02, IMG-04, IMG-14)."""

import numpy
import pytest

import test_card
from support.capi import Client, Error
from support.specs import spec

GOOD = 24


@pytest.fixture
def damaged(open_folder):
    """(folder, {path: kind}) with cards of every format, and files damaged in every way that a format has."""
    folder = open_folder / "class_a"
    kinds = test_card.damaged_folder(folder, good=GOOD)
    del kinds["gone.jpg"]  # a link that leads nowhere is no sample: the scan leaves it out
    whole = folder / "good_000.jpg"
    progressive = test_card.write_jpeg(folder / "progressive.jpg", progressive=True)
    for share in (0.2, 0.6, 0.95):
        kinds[test_card.cut(whole, folder / f"cut_{share}.jpg", share=share).name] = "truncated"
        kinds[test_card.cut(progressive, folder / f"progressive_{share}.jpg", share=share).name] = "truncated"
    whole_png = test_card.write_card(folder / "whole.png")
    kinds[test_card.cut(whole_png, folder / "half.png", share=0.6).name] = "truncated"
    kinds[test_card.junk(folder / "junk.png", size=400).name] = "unsupported_format"
    return open_folder, {str(folder / name): kind for name, kind in kinds.items()}


def damaged_spec(folder, policy, **options):
    return spec(folder, size=(32, 32), batch=8, dtype="uint8", errors={"policy": policy}, **options)


def by_path(report):
    return {failure["path"]: failure for failure in report["failures"]}


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as made:
        yield made


def test_IMG_04_IMG_14_each_damaged_file_is_reported_with_its_kind_and_the_stream_goes_on(client, damaged):
    folder, kinds = damaged
    stream = client.open(damaged_spec(folder, "refill"))
    rows = sum(len(batch.ids()) for batch in stream.batches())
    report = stream.report()
    assert rows == stream.samples  # a row for each, also for the damaged
    stream.close()
    assert {path: failure["kind"] for path, failure in by_path(report).items()} == kinds
    assert report["failure_count"] == len(report["failures"]) >= len(kinds)  # a substitute may be damaged too
    epoch = report["epochs"][0]
    assert (epoch["failed"], epoch["substituted"]) == (len(kinds), len(kinds))
    assert epoch["delivered"] == epoch["planned"] - len(kinds)
    assert all(failure["reason"] for failure in report["failures"])


def test_IMG_02_content_of_no_known_kind_is_reported_with_its_first_8_bytes_in_hex(client, damaged):
    folder, _ = damaged
    stream = client.open(damaged_spec(folder, "refill"))
    assert list(stream.batches())
    failure = by_path(stream.report())[str(folder / "class_a" / "junk.png")]
    stream.close()
    first = (folder / "class_a" / "junk.png").read_bytes()[:8]
    reason = failure["reason"].lower().replace(" ", "")
    assert first.hex() in reason


def test_IMG_02_a_png_named_jpeg_is_the_same_png(client, open_folder):
    for name in ("a.png", "b.JPEG"):
        test_card.lying_png(open_folder / "x" / name)
    test_card.write_card(open_folder / "x" / "c.JPEG", format="BMP")
    test_card.write_card(open_folder / "x" / "d.jpg", format="GIF")
    test_card.write_card(open_folder / "x" / "e.JPEG", format="WEBP", lossless=True)
    job = spec(open_folder, batch=5, dtype="uint8", layout="NHWC", shuffle=False)
    job["pipeline"] = [{"op": "decode", "channels": 3},
                       {"op": "center_crop", "size": [test_card.HEIGHT, test_card.WIDTH]}]
    stream = client.open(job)
    (images,) = [batch.array("image") for batch in stream.batches()]
    assert stream.report()["failure_count"] == 0
    stream.close()
    for number, image in enumerate(images):
        if number != 3:  # the GIF has a palette
            assert numpy.array_equal(image, test_card.card()), number
    assert numpy.abs(images[3].astype(int) - test_card.card()).mean() < 12


def test_IMG_04_a_missing_end_marker_is_delivered_and_counted_as_a_warning(daemon, client, open_folder):
    whole = test_card.write_jpeg(open_folder / "x" / "a.jpg")
    test_card.cut(whole, open_folder / "x" / "b.jpg", missing=2)
    job = spec(open_folder, size=(32, 32), batch=2, dtype="uint8", layout="NHWC", shuffle=False)
    job["pipeline"] = [{"op": "decode", "channels": 3}, {"op": "resize", "size": [32, 32]}]
    stream = client.open(job)
    (images,) = [batch.array("image") for batch in stream.batches()]
    assert numpy.array_equal(images[0], images[1])
    assert stream.report()["failure_count"] == 0
    assert stream.report()["stats"]["decode_warnings"] == 1
    stream.close()


def test_IMG_14_droppings_are_left_out_and_counted_and_empty_classes_keep_their_number(client, open_folder):
    test_card.write_jpeg(open_folder / "a" / "0001.jpg")
    (open_folder / "b").mkdir()
    test_card.write_jpeg(open_folder / "c" / "0001.jpg")
    test_card.junk(open_folder / "a" / "._0001.jpg")
    test_card.junk(open_folder / "a" / "Thumbs.db")
    test_card.junk(open_folder / "hidden_only" / ".DS_Store")
    stream = client.open(spec(open_folder, size=(8, 8), batch=2, shuffle=False))
    (labels,) = [batch.array("label").tolist() for batch in stream.batches()]
    report = stream.report()
    stream.close()
    assert report["classes"] == ["a", "b", "c"] and labels == [0, 2]
    skipped = report["skipped_files"]
    assert (skipped["hidden"]["count"], skipped["thumbs"]["count"]) == (2, 1)
    assert report["failure_count"] == 0


def test_a_placeholder_is_zeros_and_invalid_and_keeps_the_damaged_samples_place(client, damaged):
    folder, kinds = damaged
    plan = client.open(damaged_spec(folder, "placeholder"))
    names = sorted(str(path) for path in (folder / "class_a").iterdir() if path.exists())
    seen = {}
    for batch in plan.batches():
        seen |= dict(zip(batch.ids(), zip(batch.valid(), batch.array("image"))))
    plan.close()
    assert sorted(seen) == list(range(len(names)))
    for sample_id, (flag, picture) in seen.items():
        if names[sample_id] in kinds:
            assert flag == 0 and not picture.any()
        else:
            assert flag == 1 and picture.any()


def test_fail_gives_the_earlier_batches_and_then_an_error_that_names_the_file(client, open_folder):
    test_card.id_pictures(open_folder, 40)
    victim = sorted(open_folder.glob("*/*.png"))[25]
    test_card.cut(victim, victim, share=0.7)
    stream = client.open(spec(open_folder, size=(4, 4), batch=8, shuffle=False, errors={"policy": "fail"}))
    got = []
    with pytest.raises(Error) as stopped:
        for batch in stream.batches():
            got += batch.ids()
    assert got == list(range(24))
    assert (stopped.value.code, stopped.value.kind) == ("SL_E_SAMPLE", "truncated")
    assert (stopped.value.sample_id, stopped.value.path) == (25, str(victim))
    with pytest.raises(Error):  # and again at every later call
        stream.next()
    assert by_path(stream.report())[str(victim)]["batch"] == 3
    stream.close()
