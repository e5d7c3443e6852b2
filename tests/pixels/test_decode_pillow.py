"""Promise 9: profile `pillow` gives the bytes Pillow gives for the same crop box and output size."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pixel_client import by_pillow, photo_like, test_card

DRAWS = range(8)


def jpeg(**options):
    def save(path):
        photo_like(331, 247).save(path, "JPEG", **options)

    return save


def picture(kind, mode, **options):
    def save(path):
        image = photo_like(203, 149, seed=3)
        if mode == "P":
            image = image.quantize(100)
        elif mode in ("RGBA", "LA"):
            alpha = Image.linear_gradient("L").resize(image.size)
            image = image.convert(mode[:-1])
            image.putalpha(alpha)
        else:
            image = image.convert(mode)
        image.save(path, kind, **options)

    return save


FILES = {
    "jpeg 4:4:4": jpeg(quality=92, subsampling=0),
    "jpeg 4:2:2": jpeg(quality=92, subsampling=1),
    "jpeg 4:2:0": jpeg(quality=75, subsampling=2),
    "jpeg progressive": jpeg(quality=90, progressive=True),
    "jpeg optimised low quality": jpeg(quality=5, optimize=True),
    "jpeg grey": picture("JPEG", "L"),
    "jpeg cmyk": picture("JPEG", "CMYK"),
    "png rgb": picture("PNG", "RGB"),
    "png rgba": picture("PNG", "RGBA"),
    "png grey": picture("PNG", "L"),
    "png grey alpha": picture("PNG", "LA"),
    "png palette": picture("PNG", "P"),
    "png one bit": picture("PNG", "1"),
    "png 4 bits": picture("PNG", "P", bits=4),
    "gif": picture("GIF", "P"),
    "webp lossless": picture("WEBP", "RGB", lossless=True),
    "webp lossy": picture("WEBP", "RGB", quality=80),
    "webp alpha": picture("WEBP", "RGBA", lossless=True, exact=True),
    "tiff rgb": picture("TIFF", "RGB"),
    "tiff deflate": picture("TIFF", "RGB", compression="tiff_adobe_deflate"),
    "tiff grey": picture("TIFF", "L"),
    "tiff palette": picture("TIFF", "P"),
    "tiff one bit": picture("TIFF", "1"),
    "tiff cmyk": picture("TIFF", "CMYK"),
    "tiff rgba": picture("TIFF", "RGBA"),
    "bmp rgb": picture("BMP", "RGB"),
    "bmp rgba": picture("BMP", "RGBA"),
    "bmp grey": picture("BMP", "L"),
    "bmp palette": picture("BMP", "P"),
    "bmp one bit": picture("BMP", "1"),
    "ppm": picture("PPM", "RGB"),
    "pgm": picture("PPM", "L"),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("channels, mode", [(3, "RGB"), (1, "L")])
def test_a_random_resized_crop_has_pillows_bytes(pixels, tmp_path, kind, channels, mode):
    path = tmp_path / "picture.any"
    FILES[kind](path)
    image = Image.open(path)
    for draw in DRAWS:
        words = ("rrc:96:128", "flip:0.5", f"channels:{channels}")
        answer = pixels.run(path, *words, sample=draw)
        assert not answer.kind, answer
        np.testing.assert_array_equal(answer.pixels, by_pillow(image, answer, mode))


@pytest.mark.parametrize("kind", FILES)
def test_a_whole_picture_has_pillows_bytes(pixels, tmp_path, kind):
    path = tmp_path / "picture.any"
    FILES[kind](path)
    image = Image.open(path)
    answer = pixels.whole(path, image.size)
    assert answer.size == image.size
    np.testing.assert_array_equal(answer.pixels, np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("size", [(331, 247), (247, 331), (40, 300)])
def test_short_side_resize_and_centre_crop_have_pillows_bytes(pixels, tmp_path, size):
    path = tmp_path / "picture.jpg"
    photo_like(*size).save(path, "JPEG", quality=90)
    answer = pixels.run(path, "short:64", "center:56:56", "flip:1")
    width, height = answer.resize
    assert min(width, height) == 64
    whole = Image.open(path).convert("RGB").resize((width, height), Image.BILINEAR)
    left, top = answer.crop
    want = whole.crop((left, top, left + 56, top + 56)).transpose(Image.FLIP_LEFT_RIGHT)
    np.testing.assert_array_equal(answer.pixels, np.asarray(want))


@pytest.mark.parametrize("size", [(97, 61), (30, 80), (80, 30), (3, 2), (1, 1)])
def test_a_centre_crop_larger_than_the_picture_pads_with_zeros(pixels, tmp_path, size):
    path = tmp_path / "picture.png"
    test_card(*size).save(path)
    answer = pixels.run(path, "center:64:72")
    width, height = size
    left = round((width - 72) / 2) if width > 72 else -((72 - width) // 2)
    top = round((height - 64) / 2) if height > 64 else -((64 - height) // 2)
    want = test_card(*size).crop((left, top, left + 72, top + 64))
    np.testing.assert_array_equal(answer.pixels, np.asarray(want))


def test_real_photographs_have_pillows_bytes(pixels):
    photographs = sorted(Path("/usr/share/backgrounds").glob("**/*.jpg"))[:4]
    if not photographs:
        pytest.skip("no wallpapers on this machine")
    for path in photographs:
        answer = pixels.run(path, "rrc:224:224", "flip:0.5", sample=5)
        np.testing.assert_array_equal(answer.pixels, by_pillow(Image.open(path), answer))


@pytest.mark.parametrize("kind", ["jpeg", "jpeg grey", "jpeg cmyk", "png"])
def test_profile_fast_stays_near_pillow(pixels, tmp_path, kind):
    path = tmp_path / "picture.any"
    smooth = photo_like(90, 70).resize((900, 700), Image.BICUBIC)
    mode = {"jpeg grey": "L", "jpeg cmyk": "CMYK"}.get(kind, "RGB")
    smooth.convert(mode).save(path, kind.split()[0].upper())
    image = Image.open(path)
    for draw in DRAWS:
        answer = pixels.run(path, "fast", "rrc:64:64", "flip:0.5", sample=draw)
        difference = np.abs(answer.pixels.astype(int) - by_pillow(image, answer).astype(int))
        assert difference.mean() < 2.5, (draw, difference.mean())


@pytest.mark.parametrize("size", [201, 999, 2001, 4000])
@pytest.mark.parametrize("subsampling", [0, 2])
@pytest.mark.parametrize("profile", [(), ("fast",)])
def test_img16_scaled_decoding_does_not_move_the_picture(pixels, tmp_path, size, subsampling, profile):
    path = tmp_path / "disc.jpg"
    disc = Image.new("RGB", (size, size), (128, 128, 128))
    quarter = size // 4
    ImageDraw.Draw(disc).ellipse((quarter, quarter, size - 1 - quarter, size - 1 - quarter), (255, 255, 255))
    disc.save(path, "JPEG", quality=95, subsampling=subsampling)
    answer = pixels.run(path, *profile, "resize:64:64")
    weight = answer.pixels[..., 1].astype(float) - 128
    weight[weight < 8] = 0
    y, x = np.mgrid[0:64, 0:64]
    centre = (weight * x).sum() / weight.sum(), (weight * y).sum() / weight.sum()
    assert centre == pytest.approx((31.5, 31.5), abs=0.1)
