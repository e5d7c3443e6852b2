"""A pipeline that sets no size takes that of the first picture that can be read; others are a shape_mismatch."""

import pytest
from PIL import Image

import test_card
from support.capi import Client, Error
from support.specs import id_spec


def natural_spec(folder, **options):
    made = id_spec(folder, shuffle=False, **options)
    made["pipeline"] = [{"op": "decode", "channels": 3}]
    return made


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as made:
        yield made


def test_pictures_of_one_size_come_as_they_are(client, open_folder):
    test_card.id_pictures(open_folder, 10, size=(7, 5))
    stream = client.open(natural_spec(open_folder, batch=4))
    seen = []
    for batch in stream.batches():
        images = batch.array("image")
        assert images.shape[1:] == (5, 7, 3)
        seen += [test_card.id_of(images[row, 4, 6]) for row in range(len(batch.ids()))]
    assert seen[:10] == list(range(10))
    stream.close()


def test_a_damaged_first_file_does_not_hide_the_size_of_the_next(client, open_folder):
    paths = test_card.id_pictures(open_folder, 6, size=(7, 5))
    test_card.junk(paths[0])
    stream = client.open(natural_spec(open_folder, batch=3, errors={"policy": "placeholder"}))
    rows = [valid for batch in stream.batches() for valid in batch.valid()]
    assert rows == [0, 1, 1, 1, 1, 1]
    stream.close()


def test_a_picture_of_another_size_is_a_shape_mismatch_with_both_sizes(client, open_folder):
    paths = test_card.id_pictures(open_folder, 6, size=(7, 5))
    Image.new("RGB", (9, 9)).save(paths[3])
    stream = client.open(natural_spec(open_folder, batch=3, errors={"policy": "placeholder"}))
    for _ in stream.batches():
        pass
    failure, = stream.report()["failures"]
    assert (failure["kind"], failure["path"]) == ("shape_mismatch", str(paths[3]))
    assert "9" in failure["reason"] and "7" in failure["reason"]
    stream.close()


def test_a_folder_whose_first_pictures_are_all_damaged_is_refused_with_the_reason(client, open_folder):
    for path in test_card.id_pictures(open_folder, 4):
        test_card.junk(path)
    with pytest.raises(Error, match="unsupported_format"):
        client.open(natural_spec(open_folder, batch=2))
