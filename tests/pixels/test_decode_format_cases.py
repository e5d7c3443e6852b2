"""Files of other formats, lying names, droppings and bombs: cases IMG-02 and IMG-07 to IMG-14."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from pixel_client import photo_like, test_card

CARD = test_card()


def png(width, height, bits, colour, rows):
    """A PNG without palette from its deflated, unfiltered rows."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM"])
def test_img02_the_content_decides_the_decoder_never_the_name(pixels, tmp_path, kind):
    lying, honest = tmp_path / "card.JPEG", tmp_path / f"card.{kind.lower()}"
    CARD.save(lying, kind)
    CARD.save(honest, kind)
    answers = [pixels.whole(path, CARD.size) for path in (lying, honest)]
    assert {answer.format for answer in answers} == {"pnm" if kind == "PPM" else kind.lower()}
    np.testing.assert_array_equal(answers[0].pixels, answers[1].pixels)


SAVED = [("JPEG", {}), ("JPEG", {"progressive": True}), ("JPEG", {"comment": b"c" * 60_000}), ("PNG", {}),
         ("GIF", {}), ("WEBP", {"lossless": True}), ("WEBP", {"quality": 80}),
         ("WEBP", {"quality": 80, "icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()}),
         ("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("BMP", {})]


@pytest.mark.parametrize("kind, options", SAVED, ids=lambda value: value if isinstance(value, str) else "-".join(value))
@pytest.mark.parametrize("size", [(97, 61), (1, 300), (700, 2)])
def test_a_glance_at_the_header_tells_the_size_that_is_decoded(pixels, tmp_path, kind, options, size):
    path = tmp_path / "card"
    test_card(*size).save(path, kind, **options)
    answer = pixels.whole(path, size)
    assert answer.glanced == answer.size == size


def test_img02_unknown_content_is_shown_in_hex(pixels, tmp_path):
    path = tmp_path / "noise.png"
    noise = b"\x01" + np.random.default_rng(1).bytes(399)
    path.write_bytes(noise)
    answer = pixels.run(path, "rrc:64:64")
    assert answer.kind == "unsupported_format"
    assert noise[:8].hex(" ") in answer.message


MODES = [("L", "JPEG"), ("L", "PNG"), ("LA", "PNG"), ("1", "PNG"), ("RGB", "PNG"), ("RGBA", "PNG")]


@pytest.mark.parametrize("mode, kind", MODES)
def test_img07_every_mode_becomes_three_channels(pixels, tmp_path, mode, kind):
    path = tmp_path / "card.any"
    image = CARD.convert("L").convert(mode) if mode in ("LA", "1") else CARD.convert(mode)
    image.save(path, kind)
    answer = pixels.whole(path, CARD.size)
    assert answer.pixels.shape == (61, 97, 3)
    if mode in ("L", "LA", "1"):
        assert (answer.pixels == answer.pixels[..., :1]).all()
    if mode == "1":
        assert set(np.unique(answer.pixels)) == {0, 255}
    np.testing.assert_array_equal(answer.pixels, np.asarray(Image.open(path).convert("RGB")))


def test_img08_16_bits_become_the_nearest_8_bits(pixels, tmp_path):
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    path = tmp_path / "ramp.png"
    Image.fromarray(ramp).save(path)
    answer = pixels.whole(path, (256, 256), "channels:1")
    np.testing.assert_array_equal(answer.pixels, np.rint(ramp / 257).astype(np.uint8))


def test_img08_a_float_tiff_is_an_unsupported_dtype(pixels, tmp_path):
    path = tmp_path / "float.tif"
    Image.fromarray(np.linspace(-500, 1689, 400, dtype=np.float32).reshape(20, 20)).save(path)
    assert pixels.whole(path, (20, 20)).kind == "unsupported_dtype"


ANIMATED = [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})]


@pytest.mark.parametrize("kind, exact", ANIMATED)
def test_img09_the_first_frame_of_several_is_the_sample(pixels, tmp_path, kind, exact):
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("red", "lime", "blue")]
    if kind == "TIFF":
        frames[1] = frames[1].resize((20, 30))
    path = tmp_path / "frames.any"
    frames[0].save(path, kind, save_all=True, append_images=frames[1:], **exact)
    answer = pixels.whole(path, (40, 30))
    assert not answer.kind, answer
    assert answer.size == (40, 30)
    assert (answer.pixels == (255, 0, 0)).all()


@pytest.mark.parametrize("brand", [b"heic", b"avif"])
def test_img10_a_false_heif_file_is_a_typed_error(pixels, tmp_path, brand):
    path = tmp_path / "false.jpg"
    box = struct.pack(">I", 24) + b"ftyp" + brand + b"\0\0\0\0" + brand + b"mif1"
    path.write_bytes(box + np.random.default_rng(2).bytes(400))
    answer = pixels.run(path, "rrc:64:64")
    assert answer.kind in ("unsupported_format", "corrupt", "truncated")
    assert brand.decode() in answer.message


def test_img11_an_embedded_profile_changes_no_pixel(pixels, tmp_path):
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for kind in ("JPEG", "PNG", "TIFF", "WEBP"):
        rasters = []
        for profile in (None, srgb, np.random.default_rng(3).bytes(500)):
            path = tmp_path / "card.any"
            CARD.save(path, kind, icc_profile=profile)
            answer = pixels.whole(path, CARD.size)
            assert not answer.kind, (kind, answer)
            rasters.append(answer.pixels)
        np.testing.assert_array_equal(rasters[0], rasters[1])
        np.testing.assert_array_equal(rasters[0], rasters[2])


@pytest.mark.parametrize("size", [(1, 1), (20000, 1), (1, 20000), (2, 3)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_img12_thin_pictures_survive_every_transform(pixels, tmp_path, size, kind):
    path = tmp_path / "thin.any"
    test_card(*size).save(path, kind)
    for profile in ((), ("fast",)):
        for draw in range(4):
            answer = pixels.run(path, *profile, "rrc:224:224", "flip:0.5", sample=draw)
            assert answer.pixels.shape == (224, 224, 3)
        assert pixels.run(path, *profile, "center:5:7").pixels.shape == (5, 7, 3)


def test_img12_a_resize_to_gigabytes_is_a_pixel_budget_error(pixels, tmp_path):
    path = tmp_path / "thin.png"
    test_card(20000, 1).save(path)
    assert pixels.run(path, "short:256", "center:224:224").kind == "pixel_budget"


def test_img13_bombs_are_refused_by_their_header_without_memory(pixels, tmp_path):
    small = tmp_path / "small.jpg"
    CARD.save(small, "JPEG")
    before = pixels.run(small, "rrc:64:64").rss_kb
    zeros = zlib.compressobj(9)
    rows = b"".join(zeros.compress(b"\0" * 5001) for _ in range(40000)) + zeros.flush()
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(png(40000, 40000, 1, 0, rows))
    giant = tmp_path / "giant.jpg"
    data = bytearray(small.read_bytes())
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 65500, 65500)
    giant.write_bytes(data)
    for path, side in ((bomb, 40000), (giant, 65500)):
        answer = pixels.run(path, "rrc:64:64")
        assert answer.kind == "pixel_budget"
        assert f"{side} x {side}" in answer.message
        assert answer.rss_kb - before < 50_000


def test_img13_an_honest_giant_passes_once_the_limit_is_raised(pixels, tmp_path):
    path = tmp_path / "giant.png"
    rows = (b"\0" + b"\x55" * 2500) * 10000
    path.write_bytes(png(20000, 10000, 1, 0, zlib.compress(rows, 9)))
    assert pixels.run(path, "rrc:64:64", "max_pixels:1000000").kind == "pixel_budget"
    answer = pixels.run(path, "rrc:64:64", "max_pixels:200000000")
    assert answer.size == (20000, 10000)
    assert 120 <= answer.pixels.mean() <= 135


def test_img14_empty_files_and_droppings_are_typed_errors(pixels, tmp_path):
    path = tmp_path / "empty.jpg"
    path.touch()
    assert pixels.run(path, "rrc:64:64").kind == "empty"
    path = tmp_path / "._0001.jpg"
    path.write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X" + b"text " * 800)
    assert pixels.run(path, "rrc:64:64").kind == "unsupported_format"


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM"])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_promise10_a_cut_file_of_any_format_is_an_error_whatever_the_crop(pixels, tmp_path, kind, share):
    path = tmp_path / "cut.any"
    photo_like(300, 200).save(path, kind)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    kinds = {pixels.run(path, "rrc:32:32", sample=draw).kind for draw in range(6)}
    assert len(kinds) == 1
    assert kinds <= {"truncated", "corrupt"}


def test_promise10_a_png_with_a_damaged_checksum_is_corrupt(pixels, tmp_path):
    path = tmp_path / "damaged.png"
    CARD.save(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"IDAT") + 20] ^= 0x10
    path.write_bytes(data)
    assert pixels.run(path, "rrc:32:32").kind == "corrupt"


def test_a_picture_of_another_size_without_a_resize_is_a_shape_mismatch_naming_both(pixels, tmp_path):
    path = tmp_path / "card.png"
    CARD.save(path)
    answer = pixels.run(path, "out:60:97")
    assert answer.kind == "shape_mismatch"
    assert "97 x 61" in answer.message and "97 x 60" in answer.message


@pytest.mark.parametrize("masks", [(0xF800, 0x07E0, 0x001F), (0x7C00, 0x03E0, 0x001F)])
def test_a_16_bit_bitmap_has_pillows_bytes(pixels, tmp_path, masks):
    words = np.random.default_rng(4).integers(0, 65536, (9, 10), np.uint16)
    body = words.tobytes()
    header = struct.pack("<IiiHHIIiiII", 40, 10, -9, 1, 16, 3, len(body), 0, 0, 0, 0)
    header += struct.pack("<III", *masks)
    path = tmp_path / "masks.bmp"
    path.write_bytes(b"BM" + struct.pack("<IHHI", 66 + len(body), 0, 0, 66) + header + body)
    answer = pixels.whole(path, (10, 9))
    np.testing.assert_array_equal(answer.pixels, np.asarray(Image.open(path).convert("RGB")))
