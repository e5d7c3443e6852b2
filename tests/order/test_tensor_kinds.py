"""What lies in a batch: every dtype and layout against Pillow and NumPy, to the last bit."""

import numpy
import pytest
from PIL import Image

from support.capi import Client
from support.daemon import Daemons
from support.specs import MEAN, STD, spec

SIZE = 48
DTYPES = ["float32", "float16", "bfloat16", "uint8"]


@pytest.fixture(scope="module")
def pictures(few_photos):
    """Each sample's picture as Pillow decodes it, by id."""
    return [Image.open(path).convert("RGB") for path in sorted(few_photos.glob("*/*.jpg"))]


@pytest.fixture(scope="module")
def truth(pictures, batches):
    """The uint8 NHWC pictures that Pillow makes of the boxes and flips that the batches tell."""
    made = {}
    kind = batches["uint8", "NHWC"]
    for sample_id, box, flip in zip(kind["sample_id"], kind["crop_box"], kind["flip"]):
        x, y, width, height = (int(side) for side in box)
        picture = pictures[sample_id].crop((x, y, x + width, y + height)).resize((SIZE, SIZE), Image.BILINEAR)
        made[sample_id] = numpy.asarray(picture)[:, ::-1] if flip else numpy.asarray(picture)
    return made


@pytest.fixture(scope="module")
def batches(few_photos):
    """Every tensor of one epoch, for each dtype and layout."""
    taken = {}
    with Daemons() as daemons, Client(daemons.start().socket) as client:
        for dtype in DTYPES:
            for layout in ("NCHW", "NHWC"):
                job = spec(few_photos, size=(SIZE, SIZE), batch=7, dtype=dtype, layout=layout, explain=True)
                taken[dtype, layout] = take(client.open(job))
    return taken


def take(stream):
    names = ("image", "label", "sample_id", "valid", "crop_box", "flip")
    parts = {name: [] for name in names}
    for batch in stream.batches():
        for name in names:
            assert batch.address(name) % 256 == 0
            parts[name].append(batch.array(name))
    stream.close()
    return {name: numpy.concatenate(arrays) for name, arrays in parts.items()}


def test_the_order_and_the_draws_are_the_same_for_every_dtype_and_layout(batches):
    first = batches["float32", "NCHW"]
    for kind in batches.values():
        for name in ("label", "sample_id", "valid", "crop_box", "flip"):
            assert numpy.array_equal(kind[name], first[name])
    assert 0 < first["flip"].sum() < len(first["flip"])


def test_uint8_is_pillows_crop_resize_and_flip_byte_for_byte(batches, truth):
    kind = batches["uint8", "NHWC"]
    assert len(kind["image"]) == len(truth) == 40
    for sample_id, image in zip(kind["sample_id"], kind["image"]):
        assert numpy.array_equal(image, truth[sample_id])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_two_layouts_hold_the_same_values(batches, dtype):
    planes, pixels = (batches[dtype, layout]["image"] for layout in ("NCHW", "NHWC"))
    assert numpy.array_equal(planes.transpose(0, 2, 3, 1), pixels)


def test_float32_is_numpys_normalisation_of_these_bytes_bit_for_bit(batches, truth):
    image = batches["float32", "NHWC"]["image"]
    assert numpy.array_equal(image.view(numpy.uint32), normalised(batches, truth).view(numpy.uint32))


def test_float16_and_bfloat16_are_float32_rounded_to_nearest_even(batches, truth):
    wanted = normalised(batches, truth)
    assert numpy.array_equal(batches["float16", "NHWC"]["image"], wanted.astype(numpy.float16))
    bits = wanted.view(numpy.uint32)
    rounded = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)
    assert numpy.array_equal(batches["bfloat16", "NHWC"]["image"], rounded)


def normalised(batches, truth):
    stack = numpy.stack([truth[sample_id] for sample_id in batches["float32", "NHWC"]["sample_id"]])
    scaled = stack.astype(numpy.float32) / numpy.float32(255)
    return (scaled - numpy.float32(MEAN)) / numpy.float32(STD)
