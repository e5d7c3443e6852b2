"""Portable anymaps, P1 to P6: Pillow's pixels for what Pillow reads, and an error for what is not all there."""

import io

import numpy as np
import pytest
from PIL import Image

from pixel_client import by_pillow

WIDTH, HEIGHT = 13, 9
RANDOM = np.random.default_rng(5)


def values(maxval, channels):
    return RANDOM.integers(0, maxval + 1, (HEIGHT, WIDTH * channels))


def head(kind, maxval=None, gap=b"\n"):
    parts = [b"P%d" % kind, b"%d" % WIDTH, b"%d" % HEIGHT] + ([] if maxval is None else [b"%d" % maxval])
    return gap.join(parts) + b"\n"


def plain(kind, maxval, channels, between=b" "):
    rows = [between.join(b"%d" % value for value in row) for row in values(maxval, channels)]
    return head(kind, None if kind == 1 else maxval) + b"\n".join(rows) + b"\n"


def binary(kind, maxval, channels):
    if kind == 4:
        return head(4) + np.packbits(values(1, 1).astype(np.uint8), axis=1).tobytes()
    return head(kind, maxval) + values(maxval, channels).astype(">u2" if maxval > 255 else "u1").tobytes()


FILES = {
    "P1": plain(1, 1, 1), "P1 without gaps": plain(1, 1, 1, between=b""),
    "P2": plain(2, 255, 1), "P2 of 7": plain(2, 7, 1), "P2 between tabs": plain(2, 99, 1, between=b"\t\r\n "),
    "P3": plain(3, 255, 3), "P3 of 100": plain(3, 100, 3),
    "P4": binary(4, 1, 1),
    "P5": binary(5, 255, 1), "P5 of 1": binary(5, 1, 1), "P5 of 200": binary(5, 200, 1),
    "P6": binary(6, 255, 3), "P6 of 31": binary(6, 31, 3), "P6 of 1023": binary(6, 1023, 3),
    "P6 of 65535": binary(6, 65535, 3),
    "a comment in the header": b"P5\n# made by hand\n13 9\n#more\n255\n" + bytes(range(117)),
    "a comment among the numbers": head(2, 255) + b"# first\n" + b" ".join(b"%d" % i for i in range(117)) + b"\n#end",
    "more than the picture": binary(6, 255, 3) + b"more",
}


def whole(pixels, tmp_path, data, *words):
    path = tmp_path / "picture.pnm"
    path.write_bytes(data)
    return pixels.whole(path, (WIDTH, HEIGHT)) if not words else pixels.run(path, *words)


@pytest.mark.parametrize("kind", FILES)
def test_pixels_are_pillows(pixels, tmp_path, kind):
    answer = whole(pixels, tmp_path, FILES[kind])
    assert not answer.kind, answer
    assert answer.format == "pnm"
    np.testing.assert_array_equal(answer.pixels, np.asarray(Image.open(io.BytesIO(FILES[kind])).convert("RGB")))


@pytest.mark.parametrize("maxval", [256, 4095, 65535])
@pytest.mark.parametrize("kind", [2, 5])
def test_grey_of_many_bits_goes_by_the_rule_of_colour(pixels, tmp_path, kind, maxval):
    """Where Pillow's convert("RGB") cuts off at 255 and makes almost all of it white."""
    data = plain(2, maxval, 1) if kind == 2 else binary(5, maxval, 1)
    wide = np.asarray(Image.open(io.BytesIO(data))).astype(float)  # Pillow scales it to 65535
    answer = whole(pixels, tmp_path, data)
    want = np.rint(wide / 65535 * 255).astype(np.uint8)
    assert np.abs(answer.pixels[..., 0].astype(int) - want).max() <= (1 if maxval < 65535 else 0)
    assert (answer.pixels == answer.pixels[..., :1]).all()


@pytest.mark.parametrize("kind", FILES)
def test_a_crop_has_the_pixels_of_the_whole(pixels, tmp_path, kind):
    path = tmp_path / "picture.pnm"
    path.write_bytes(FILES[kind])
    for draw in range(4):
        answer = pixels.run(path, "rrc:8:8", sample=draw)
        np.testing.assert_array_equal(answer.pixels, by_pillow(Image.open(path), answer))


@pytest.mark.parametrize("kind", [kind for kind in FILES if "more" not in kind and "among" not in kind])
def test_cut_anywhere_it_is_an_error_whatever_the_crop(pixels, tmp_path, kind):
    path = tmp_path / "cut.pnm"
    data = FILES[kind].rstrip() if kind[1] in "123" else FILES[kind]
    needed = len(data) - (2 if kind.startswith(("P2", "P3")) else 0)  # a number may have lost digits and be one
    for length in [*range(3, 24), *range(24, needed, 17), needed - 1]:
        path.write_bytes(data[:length])
        kinds = {pixels.run(path, "rrc:4:4", sample=draw).kind for draw in range(3)}
        assert kinds == {"truncated"}, (length, data[:length])


def test_a_few_bytes_that_promise_millions_of_rows_are_truncated_at_once(pixels, tmp_path):
    for name, data in {"bits": b"P4\n1 2222222\n" + bytes(48), "grey": b"P5\n2 99999999\n255\n..",
                       "plain": b"P1\n1 99999999\n1 0 1", "numbers": b"P3\n1 9999999\n255\n1 2 3"}.items():
        path = tmp_path / f"{name}.ppm"
        path.write_bytes(data)
        answer = pixels.run(path, "rrc:8:8")
        assert answer.kind == "truncated", (name, answer)
        assert str(len(data)) in answer.message


@pytest.mark.parametrize("data, kind", [
    (b"P5\n0 4\n255\n....", "corrupt"), (b"P5\n4 0\n255\n....", "corrupt"),
    (b"P5\n2 2\n0\n....", "corrupt"), (b"P5\n2 2\n65536\n........", "corrupt"),
    (b"P5\n2 x\n255\n....", "corrupt"), (b"P5\n-2 2\n255\n....", "corrupt"),
    (b"P5\n12345678901 2\n255\n....", "corrupt"), (b"P5\n4294967295 4294967295\n255\n....", "pixel_budget"),
    (b"P2\n2 2\n9\n1 2 3 10\n", "corrupt"), (b"P2\n2 2\n9\n1 2 3 z\n", "corrupt"),
    (b"P1\n2 2\n0 1 2 1\n", "corrupt"), (b"Pf\n2 2\n-1.0\n" + bytes(16), "unsupported_dtype"),
    (b"P7\nWIDTH 2\nHEIGHT 2\nDEPTH 1\nMAXVAL 255\nENDHDR\n....", "unsupported_format"),
])
def test_what_is_wrong_is_said(pixels, tmp_path, data, kind):
    answer = whole(pixels, tmp_path, data, "rrc:8:8")
    assert answer.kind == kind, answer
    assert answer.message


def test_max_pixels_is_looked_at_before_the_bytes(pixels, tmp_path):
    answer = whole(pixels, tmp_path, b"P6\n40000 40000\n255\n...", "rrc:8:8")
    assert answer.kind == "pixel_budget"
