"""The sandbox takes nothing from honest pictures: every format that the daemon decodes gives the same bytes with it and
without, and so does a header that is looked at for a stream's size."""

import ctypes
import ctypes.util

import numpy
import pytest
from PIL import Image, ImageCms

from support.capi import Client
from support.specs import spec

SIZE = (97, 61)


def picture(seed):
    noise = numpy.random.default_rng(seed).integers(0, 256, (8, 12, 3), numpy.uint8)
    return Image.fromarray(noise).resize(SIZE, Image.BICUBIC)


@pytest.fixture(scope="module")
def every_format(session_folder):
    """A folder with a picture of every format and coding, numbered."""
    folder = session_folder / "formats" / "all"
    folder.mkdir(parents=True)
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    saved = [("jpeg", {}), ("jpeg", {"progressive": True}), ("jpeg", {"icc_profile": icc}), ("png", {}),
             ("png", {"icc_profile": icc}), ("gif", {}), ("webp", {"quality": 80}), ("webp", {"lossless": True}),
             ("tiff", {}), ("tiff", {"compression": "tiff_lzw"}), ("tiff", {"compression": "jpeg"}),
             ("tiff", {"compression": "tiff_deflate"}), ("bmp", {}), ("ppm", {})]
    for number, (kind, options) in enumerate(saved):
        picture(number).save(folder / f"{number:02}.{kind}", kind, **options)
    picture(50).convert("CMYK").save(folder / "50.jpeg")
    picture(51).convert("CMYK").save(folder / "51.tiff")
    picture(52).convert("P").save(folder / "52.png")
    picture(53).convert("I").point(lambda value: value * 200).convert("I;16").save(folder / "53.png")
    save_by_vips(folder)
    return folder.parent


def save_by_vips(folder):
    """HEIC and AVIF, which Pillow does not write; not at all where libvips has no encoder for them."""
    vips = ctypes.CDLL(ctypes.util.find_library("vips"))
    vips.vips_image_new_from_file.restype = ctypes.c_void_p
    vips.vips_init(b"test_formats")
    image = vips.vips_image_new_from_file(bytes(folder / "03.png"), None)
    for kind in ("heic", "avif"):
        vips.vips_image_write_to_file(ctypes.c_void_p(image), bytes(folder / f"60.{kind}"), None)


def outcome(daemon, job):
    with Client(daemon.socket) as client:
        stream = client.open(job)
        batches = [batch.raw("image")[2] + batch.raw("sample_id")[2] + batch.raw("valid")[2] for batch in stream.batches()]
        failures = stream.report()["failures"]
        stream.close()
    return batches, [(failure["path"], failure["reason"]) for failure in failures]


def test_every_format_is_decoded_to_the_same_bytes_inside_and_outside(daemons, every_format):
    job = spec(every_format, size=(32, 32), batch=4, epochs=2, errors={"policy": "placeholder", "max_failures": 10**6})
    inside, failed = outcome(daemons.start(), job)
    outside, _ = outcome(daemons.start("--no-sandbox"), job)
    assert failed == []
    assert inside == outside


@pytest.mark.parametrize("file", ["00.jpeg", "03.png", "06.webp", "08.tiff"])
def test_a_size_that_is_the_first_pictures_is_read_in_a_sandbox_too(daemons, daemon, every_format, tmp_path, file):
    (tmp_path / file).write_bytes((every_format / "all" / file).read_bytes())
    job = spec(tmp_path, dtype="uint8", layout="NHWC", batch=1)
    job["pipeline"] = [{"op": "decode", "channels": 3}]
    with Client(daemon.socket) as client:
        stream = client.open(job)
        _, batch = stream.next()
        assert batch.raw("image")[1] == (1, SIZE[1], SIZE[0], 3)
        batch.release()
        stream.close()
