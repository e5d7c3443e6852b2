"""Profile `pillow` promises Pillow's own bytes: the resize against PIL's, picture by picture.

Run by pytest; needs the built resample_tool below $SL_BUILD_DIR. Every test runs with SIMD on
and with it off.
"""

import os
import pathlib
import random
import struct
import subprocess

import numpy
import pytest
from PIL import Image

PHOTOGRAPHS = pathlib.Path("/usr/share/backgrounds")
CHANNELS = {"L": 1, "RGB": 3, "RGBX": 4}


@pytest.fixture(scope="module")
def tool():
    build = os.environ.get("SL_BUILD_DIR")
    if not build:
        pytest.skip("SL_BUILD_DIR is not set")
    return pathlib.Path(build) / "tests" / "resample_tool"


@pytest.fixture(params=["on", "off"])
def simd(request):
    return request.param


def case_bytes(picture, size, flip):
    head = struct.pack("<6I", *picture.size, CHANNELS[picture.mode], *size, int(flip))
    return head + picture.tobytes()


def pillow_bytes(picture, size, flip):
    resized = picture.resize(size, Image.BILINEAR)
    if flip:
        resized = resized.transpose(Image.FLIP_LEFT_RIGHT)
    return resized.tobytes() if picture.mode == "L" else resized.convert("RGB").tobytes()


def mismatches(tool, simd, cases):
    """Resizes all cases in one run of the tool; returns those whose bytes are not Pillow's."""
    run = subprocess.run(
        [tool],
        input=b"".join(case_bytes(*case) for case in cases),
        stdout=subprocess.PIPE,
        env={**os.environ, "SPEEDYLOADER_SIMD": simd},
        check=True,
        timeout=300,
    )
    wrong = []
    position = 0
    for picture, size, flip in cases:
        expected = pillow_bytes(picture, size, flip)
        got = run.stdout[position : position + len(expected)]
        position += len(expected)
        if got != expected:
            wrong.append((picture.mode, picture.size, size, flip))
    assert position == len(run.stdout)
    return wrong


def photographs():
    """Wallpapers if the system has them, a synthetic landscape always."""
    ramp = numpy.linspace(0, 9, 1500)
    waves = numpy.sin(ramp[None, :, None] * numpy.array([1, 2, 3])) + numpy.cos(ramp[:900, None, None] ** 2)
    pictures = [Image.fromarray((waves * 60 + 128).astype(numpy.uint8), "RGB")]
    if PHOTOGRAPHS.is_dir():
        for path in sorted(PHOTOGRAPHS.glob("*.[jp][pn]g"))[:6]:
            with Image.open(path) as picture:
                pictures.append(picture.convert("RGB").resize((1600, 1000), Image.BOX))
    return pictures


def random_crop(rng, picture):
    width = rng.randint(1, min(picture.width, 500))
    height = rng.randint(1, min(picture.height, 400))
    x = rng.randint(0, picture.width - width)
    y = rng.randint(0, picture.height - height)
    return picture.crop((x, y, x + width, y + height)).convert(rng.choice(["L", "RGB", "RGB", "RGBX"]))


def noise(rng, size, mode="RGB"):
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], CHANNELS[mode])
    values = numpy.random.default_rng(rng.getrandbits(32)).integers(0, 256, shape, dtype=numpy.uint8)
    if mode != "RGBX":
        return Image.fromarray(values, mode)
    return Image.frombytes("RGBX", size, values.tobytes())


def checkerboard(width, height):
    board = (numpy.indices((height, width)).sum(axis=0) % 2 * 255).astype(numpy.uint8)
    return Image.fromarray(board, "L").convert("RGB")


def test_crops_of_photographs_resize_to_pillows_bytes(tool, simd):
    rng = random.Random(15)
    pictures = photographs()
    cases = []
    for i in range(600):
        size = (224, 224) if i % 3 == 0 else (rng.randint(1, 320), rng.randint(1, 320))
        cases.append((random_crop(rng, rng.choice(pictures)), size, rng.random() < 0.5))
    assert mismatches(tool, simd, cases) == []


def test_noise_resizes_to_pillows_bytes_up_and_down(tool, simd):
    rng = random.Random(2718)
    cases = []
    for _ in range(500):
        source = (rng.randint(1, 130), rng.randint(1, 130))
        size = tuple(max(1, round(side * rng.uniform(0.2, 4))) for side in source)
        cases.append((noise(rng, source, rng.choice(list(CHANNELS))), size, rng.random() < 0.5))
    assert mismatches(tool, simd, cases) == []


def test_pictures_of_one_row_or_one_column_resize_to_pillows_bytes(tool, simd):
    rng = random.Random(4445)
    cases = []
    for mode in CHANNELS:
        for side in (1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 224):
            for size in ((1, 1), (1, 50), (50, 1), (side, 7), (7, side), (224, 224)):
                cases.append((noise(rng, (1, side), mode), size, False))
                cases.append((noise(rng, (side, 1), mode), size, True))
    assert mismatches(tool, simd, cases) == []


def test_a_size_kept_on_one_axis_skips_that_pass_as_pillow_does(tool, simd):
    rng = random.Random(8)
    cases = []
    for mode in CHANNELS:
        for flip in (False, True):
            picture = noise(rng, (67, 45), mode)
            cases += [(picture, size, flip) for size in ((67, 45), (67, 90), (67, 20), (90, 45), (20, 45))]
    assert mismatches(tool, simd, cases) == []


def test_a_strong_shrink_resizes_to_pillows_bytes(tool, simd):
    rng = random.Random(9)
    cases = [(noise(rng, (3000, 40)), (7, 5), False), (noise(rng, (40, 3000)), (5, 7), True)]
    cases += [(noise(rng, (9000, 3), "L"), (1, 1), False), (noise(rng, (1500, 1000)), (384, 256), False)]
    assert mismatches(tool, simd, cases) == []


def test_checkerboards_resize_to_pillows_bytes(tool, simd):
    sizes = ((512, 512), (300, 200), (224, 512), (100, 90))
    cases = [(checkerboard(w, h), (224, 224), False) for w, h in sizes]
    assert mismatches(tool, simd, cases) == []


def test_a_one_pixel_checkerboard_shrinks_to_grey_instead_of_aliasing(tool, simd):
    picture = checkerboard(512, 512)
    run = subprocess.run(
        [tool],
        input=case_bytes(picture, (224, 224), False),
        stdout=subprocess.PIPE,
        env={**os.environ, "SPEEDYLOADER_SIMD": simd},
        check=True,
        timeout=60,
    )
    values = numpy.frombuffer(run.stdout, numpy.uint8)
    assert values.size == 224 * 224 * 3
    assert values.min() >= 120 and values.max() <= 135
