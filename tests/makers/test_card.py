"""Small pictures whose every pixel is known, and damaged files, for the Python tests. Holds no tests itself.

The card is 97 x 61: odd sizes, three different gradients, a red block top left and a blue block bottom
right, so that every flip, swap, off-by-one and channel mix-up shows. Functions write files and return their
paths; they overwrite what is there and raise OSError when they cannot.
"""

import pathlib
import random

import numpy
from PIL import Image

WIDTH, HEIGHT = 97, 61


def card():
    """The card as uint8, height x width x 3."""
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    picture = numpy.stack([40 + 150 * x // (WIDTH - 1), 220 - 160 * y // (HEIGHT - 1),
                           60 + 120 * (x + y) // (WIDTH + HEIGHT - 2)], axis=-1).astype(numpy.uint8)
    picture[:12, :17] = (230, 20, 30)
    picture[-11:, -19:] = (25, 35, 225)
    return picture


def write_card(path, **options):
    """Writes the card; format by ending unless `format=` says otherwise. Options are Pillow's (quality=,
    subsampling=, progressive=, compression=, ...)."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(card()).save(path, **options)
    return path


def write_jpeg(path, picture=None, quality=92, subsampling="4:2:0", **options):
    """An array (the card by default) as JPEG under any name."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = card() if picture is None else picture
    Image.fromarray(picture).save(path, format="JPEG", quality=quality, subsampling=subsampling, **options)
    return path


def cut(source, target, share=None, missing=None):
    """A copy of the first `share` of a file's bytes, or of all but the last `missing` bytes."""
    data = pathlib.Path(source).read_bytes()
    length = int(len(data) * share) if missing is None else len(data) - missing
    return _write(target, data[:length])


def scrambled(source, target, seed=0, start=0.3, length=64):
    """A copy with `length` bytes from `start` (a share of the file) on replaced by noise."""
    data = bytearray(pathlib.Path(source).read_bytes())
    at = int(len(data) * start)
    data[at:at + length] = random.Random(seed).randbytes(len(data[at:at + length]))
    return _write(target, bytes(data))


def empty(target):
    return _write(target, b"")


def junk(target, size=4096, seed=0):
    """Noise that begins like no picture format."""
    return _write(target, b"\x01\x02\x03\x04" + random.Random(seed).randbytes(size - 4))


def lying_png(target):
    """The card as PNG under whatever name `target` has, such as `x.JPEG`."""
    return write_card(target, format="PNG")


def id_pictures(folder, count, classes=1, size=(8, 8)):
    """`count` one-coloured PNGs whose colour is their sample id, in `classes` sub-folders.

    Sorted by class and name they are numbered 0, 1, 2, ...: the ids that an image folder gives them. `size`
    is (width, height). Returns the paths by id; `id_of` reads an id back from pixels.
    """
    paths = []
    for sample_id in range(count):
        colour = (sample_id & 255, sample_id >> 8 & 255, sample_id >> 16 & 255)
        name = f"class_{sample_id * classes // count:03d}/sample_{sample_id:07d}.png"
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, colour).save(path, compress_level=1)
        paths.append(path)
    return paths


def id_of(pixel):
    """The sample id that a pixel (three uint8 values) of `id_pictures` stands for."""
    red, green, blue = (int(value) for value in pixel[:3])
    return red | green << 8 | blue << 16


def damaged_folder(folder, good=20):
    """A class folder with `good` whole cards and one file of each kind of damage.

    Returns {file name: error kind} of the damaged ones, with the kinds of the public interface.
    """
    folder = pathlib.Path(folder)
    whole = write_jpeg(folder / "good_000.jpg")
    for number in range(1, good):
        write_jpeg(folder / f"good_{number:03d}.jpg", quality=80 + number % 15)
    empty(folder / "zero.jpg")
    cut(whole, folder / "half.jpg", share=0.6)
    junk(folder / "junk.jpg")
    (folder / "gone.jpg").unlink(missing_ok=True)
    (folder / "gone.jpg").symlink_to(folder / "never_there.jpg")
    return {"zero.jpg": "empty", "half.jpg": "truncated", "junk.jpg": "unsupported_format",
            "gone.jpg": "not_found"}


def _write(target, data):
    target = pathlib.Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target
