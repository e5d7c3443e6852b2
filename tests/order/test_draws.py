"""The random draws of an epoch, as the batches tell them (LDR-04)."""

import numpy
import pytest
from PIL import Image

import test_card
from support.capi import Client
from support.specs import spec

COUNT = 1000
WIDTH, HEIGHT = 1440, 1080


@pytest.fixture(scope="module")
def one_picture_under_many_names(session_folder):
    """Large enough that two samples with equal boxes are no accident."""
    folder = session_folder / "one_picture"
    (folder / "a").mkdir(parents=True)
    large = Image.fromarray(test_card.card()).resize((WIDTH, HEIGHT), Image.NEAREST)
    large.save(folder / "a" / "0000.jpg", quality=60)
    for number in range(1, COUNT):
        (folder / "a" / f"{number:04d}.jpg").symlink_to("0000.jpg")
    return folder


def draw_spec(folder, **top):
    return spec(folder, size=(8, 8), dtype="uint8", explain=True, profile="fast", **top)


def draws(daemon, job):
    """For each epoch {sample id: (x, y, width, height, flip)}."""
    epochs = [{}]
    with Client(daemon.socket) as client:
        stream = client.open(job)
        for batch in stream.batches():
            if len(epochs[-1]) == COUNT:
                epochs.append({})
            rows = numpy.column_stack([batch.array("crop_box"), batch.array("flip")])
            epochs[-1].update(zip(batch.ids(), map(tuple, rows.tolist())))
        stream.close()
    return epochs


def test_LDR_04_no_two_samples_and_no_two_epochs_share_their_draws(daemons, one_picture_under_many_names):
    job = draw_spec(one_picture_under_many_names, epochs=2)
    first, second = draws(daemons.start(workers=2), job)
    assert first.keys() == second.keys() == set(range(COUNT))
    assert len(set(first.values())) == COUNT
    assert not set(first.values()) & set(second.values())
    again = dict(job, epochs=1)
    assert draws(daemons.start(workers=1, env={"SPEEDYLOADER_TEST_DELAY_US": 500}), again) == [first]


def torchvision_draw(random):
    """(area, ratio) of a box as RandomResizedCrop.get_params draws it, with its default limits."""
    for _ in range(10):
        area = WIDTH * HEIGHT * random.uniform(0.08, 1.0)
        ratio = numpy.exp(random.uniform(numpy.log(3 / 4), numpy.log(4 / 3)))
        width, height = round(numpy.sqrt(area * ratio)), round(numpy.sqrt(area / ratio))
        if 0 < width <= WIDTH and 0 < height <= HEIGHT:
            return width * height / (WIDTH * HEIGHT), width / height
    return 1.0, WIDTH / HEIGHT  # the whole picture, whose ratio lies within the limits


def test_LDR_04_the_draws_are_distributed_as_torchvisions(daemon, one_picture_under_many_names):
    (epoch,) = draws(daemon, draw_spec(one_picture_under_many_names))
    box = numpy.array(list(epoch.values()), dtype=float)
    assert (box[:, 0] + box[:, 2] <= WIDTH).all() and (box[:, 1] + box[:, 3] <= HEIGHT).all()
    area, ratio = box[:, 2] * box[:, 3] / (WIDTH * HEIGHT), box[:, 2] / box[:, 3]
    random = numpy.random.default_rng(1)
    wanted_area, wanted_ratio = numpy.array([torchvision_draw(random) for _ in range(10_000)]).T
    for got, wanted in ((area, wanted_area), (ratio, wanted_ratio)):
        assert abs(got.mean() - wanted.mean()) < 4 * wanted.std() / numpy.sqrt(COUNT)
        assert abs(got.min() - wanted.min()) < 0.01 and abs(got.max() - wanted.max()) < 0.05
    assert abs(box[:, 4].mean() - 0.5) < 4 * 0.5 / numpy.sqrt(COUNT)
