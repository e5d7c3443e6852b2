"""JPEG files as people meet them: cases IMG-01, IMG-04, IMG-05, IMG-06.

Needs cjpeg (Debian: libjpeg-turbo-progs) for the codings that Pillow does not write.
"""

import subprocess

import numpy as np
import pytest
from PIL import Image

from pixel_client import photo_like, test_card

CARD = test_card()


def cjpeg(image, *options):
    pnm = b"P6 %d %d 255\n" % image.size + image.tobytes()
    return subprocess.run(["cjpeg", *options], input=pnm, stdout=subprocess.PIPE, check=True).stdout


def write(path, data):
    path.write_bytes(bytes(data))
    return path


def cmyk_file(path):
    CARD.convert("CMYK").save(path, "JPEG", quality=95)
    return bytearray(path.read_bytes())


def app14_at(data):
    return data.index(b"Adobe")


# IMG-01 -----------------------------------------------------------------------------------------------------


def test_img01_a_cmyk_file_comes_out_as_pillow_converts_it(pixels, tmp_path):
    path = tmp_path / "cmyk.jpg"
    cmyk_file(path)
    answer = pixels.whole(path, CARD.size)
    want = np.asarray(Image.open(path).convert("RGB")).astype(int)
    assert np.abs(answer.pixels - want).max() <= 2
    assert not answer.ambiguous
    assert answer.pixels.mean() > 60


def test_img01_a_ycck_file_comes_out_as_pillow_converts_it(pixels, tmp_path):
    path = tmp_path / "ycck.jpg"
    data = cmyk_file(path)
    data[app14_at(data) + 11] = 2
    write(path, data)
    answer = pixels.whole(path, CARD.size)
    want = np.asarray(Image.open(path).convert("RGB")).astype(int)
    assert np.abs(answer.pixels - want).max() <= 2


def test_img01_a_four_component_file_without_adobe_marker_is_ambiguous_but_delivered(pixels, tmp_path):
    path = tmp_path / "plain.jpg"
    data = cmyk_file(path)
    start = app14_at(data) - 4
    del data[start : start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")]
    write(path, data)
    answer = pixels.whole(path, CARD.size)
    assert answer.ambiguous
    want = np.asarray(Image.open(path).convert("RGB")).astype(int)
    assert np.abs(answer.pixels - want).max() <= 2


def test_img01_a_file_stored_as_rgb_is_not_converted_from_ycbcr(pixels, tmp_path):
    path = write(tmp_path / "rgb.jpg", cjpeg(CARD, "-rgb", "-quality", "92"))
    answer = pixels.whole(path, CARD.size)
    assert np.abs(answer.pixels.astype(int) - np.asarray(CARD)).mean() < 3


# IMG-04 -----------------------------------------------------------------------------------------------------

CODINGS = {"baseline": (), "progressive": ("-progressive",)}
PHOTO = photo_like(500, 375)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("share", [0.02, 0.2, 0.6, 0.95, 0.999])
def test_img04_a_cut_file_is_truncated_whatever_the_crop(pixels, tmp_path, coding, share):
    data = cjpeg(PHOTO, "-quality", "92", *CODINGS[coding])
    size = int(len(data) * share)
    path = write(tmp_path / "cut.jpg", data[:size])
    for draw in range(6):
        answer = pixels.run(path, "rrc:64:64", sample=draw)
        assert answer.kind == "truncated"
        assert str(size) in answer.message
        assert answer.offset == size


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("missing", [1, 2])
def test_img04_a_file_without_its_end_marker_is_delivered_with_a_warning(pixels, tmp_path, coding, missing):
    data = cjpeg(PHOTO, "-quality", "92", *CODINGS[coding])
    whole = write(tmp_path / "whole.jpg", data)
    cut = write(tmp_path / "cut.jpg", data[:-missing])
    for draw in range(4):
        want = pixels.run(whole, "rrc:64:64", sample=draw)
        got = pixels.run(cut, "rrc:64:64", sample=draw)
        assert (want.warnings, got.warnings) == (0, 1)
        np.testing.assert_array_equal(got.pixels, want.pixels)


@pytest.mark.parametrize("options", [("-arithmetic",), ("-arithmetic", "-progressive")])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_img04_a_cut_arithmetic_file_is_truncated_whatever_the_crop(pixels, tmp_path, options, share):
    data = cjpeg(PHOTO, "-quality", "92", *options)
    path = write(tmp_path / "cut.jpg", data[: int(len(data) * share)])
    for draw in range(6):
        assert pixels.run(path, "rrc:64:64", sample=draw).kind == "truncated"


def test_img04_a_thumbnails_end_marker_does_not_hide_a_cut(pixels, tmp_path):
    thumbnail = cjpeg(test_card(), "-quality", "80")
    data = cjpeg(PHOTO, "-quality", "92")
    segment = b"Exif\0\0" + thumbnail
    data = data[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + data[2:]
    path = write(tmp_path / "cut.jpg", data[: len(data) // 2])
    assert pixels.run(path, "rrc:64:64", sample=3).kind == "truncated"


def scans(data):
    """Offsets of the scan headers."""
    return [i for i in range(len(data) - 1) if data[i] == 0xFF and data[i + 1] == 0xDA]


def test_img04_a_progressive_file_cut_behind_a_scan_is_truncated(pixels, tmp_path):
    data = cjpeg(PHOTO, "-progressive")
    second = scans(data)[1]
    cut = data.rindex(b"\xff\xc4", 0, second)  # the Huffman table before the second scan
    path = write(tmp_path / "cut.jpg", data[:cut])
    assert pixels.run(path, "rrc:64:64").kind == "truncated"


def test_img04_an_end_marker_put_behind_half_the_data_is_corrupt(pixels, tmp_path):
    data = cjpeg(PHOTO, "-quality", "92")
    path = write(tmp_path / "short.jpg", data[: len(data) // 2] + b"\xff\xd9")
    assert pixels.whole(path, PHOTO.size).kind == "corrupt"


# IMG-05 -----------------------------------------------------------------------------------------------------


def test_img05_bytes_before_the_end_marker_change_no_pixel_and_warn(pixels, tmp_path):
    data = cjpeg(PHOTO, "-quality", "92")
    clean = pixels.whole(write(tmp_path / "clean.jpg", data), PHOTO.size)
    junk = pixels.whole(write(tmp_path / "junk.jpg", data[:-2] + bytes(range(15)) + data[-2:]), PHOTO.size)
    assert (clean.warnings, junk.warnings) == (0, 1)
    np.testing.assert_array_equal(junk.pixels, clean.pixels)


@pytest.mark.parametrize("coding", CODINGS)
def test_img05_bytes_behind_the_end_marker_change_nothing(pixels, tmp_path, coding):
    data = cjpeg(PHOTO, "-quality", "92", *CODINGS[coding])
    clean = write(tmp_path / "clean.jpg", data)
    trailing = write(tmp_path / "trailing.jpg", data + np.random.default_rng(5).bytes(777))
    for draw in range(4):
        want = pixels.run(clean, "rrc:64:64", sample=draw)
        got = pixels.run(trailing, "rrc:64:64", sample=draw)
        assert got.warnings == 0
        np.testing.assert_array_equal(got.pixels, want.pixels)


def restart_markers(data):
    return [i for i in range(len(data) - 1) if data[i] == 0xFF and 0xD0 <= data[i + 1] <= 0xD7]


@pytest.mark.parametrize("with_marker", [False, True])
def test_img05_a_lost_restart_segment_gives_the_same_bytes_and_is_flagged(pixels, tmp_path, with_marker):
    data = cjpeg(PHOTO, "-restart", "1", "-sample", "1x1")
    at = restart_markers(data)
    start = at[5] if with_marker else at[5] + 2
    path = write(tmp_path / "lost.jpg", data[:start] + data[at[6] :])
    first = pixels.whole(path, PHOTO.size)
    assert not first.kind and first.warnings >= 1
    for draw in range(6):
        again = pixels.whole(path, PHOTO.size)
        np.testing.assert_array_equal(again.pixels, first.pixels)
        region = pixels.run(path, "center:100:100", sample=draw)
        left, top, right, bottom = region.box
        np.testing.assert_array_equal(region.pixels, first.pixels[top:bottom, left:right])


# IMG-06 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [("-arithmetic",), ("-arithmetic", "-progressive"), ("-progressive",)])
def test_img06_arithmetic_and_progressive_files_decode(pixels, tmp_path, options):
    path = write(tmp_path / "rare.jpg", cjpeg(CARD, "-quality", "95", "-sample", "1x1", *options))
    answer = pixels.whole(path, CARD.size)
    assert answer.progressive == ("-progressive" in options)
    assert np.abs(answer.pixels.astype(int) - np.asarray(CARD)).mean() < 3


@pytest.mark.parametrize(
    "offset, values, words",
    [
        (4, b"\x0c", "FFC0 with 12 bits"),
        (1, b"\xc3", "FFC3 with 8 bits"),
        (5, b"\0\0", "height 0"),
        (1, b"\xde", "FFDE"),
    ],
)
def test_img06_codings_nobody_decodes_are_named_quickly(pixels, tmp_path, offset, values, words):
    data = bytearray(cjpeg(PHOTO))
    frame = data.index(b"\xff\xc0")
    data[frame + offset : frame + offset + len(values)] = values
    answer = pixels.run(write(tmp_path / "rare.jpg", data), "rrc:64:64")
    assert answer.kind == "unsupported_coding"
    assert words in answer.message
    assert answer.micros < 10_000
