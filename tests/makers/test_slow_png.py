"""What slow_png.py promises: lawful files, small ones, whose decoding is work for every pixel."""

import time

from PIL import Image
from slow_png import write_one_slow, write_slow_png


def decode_cpu_seconds(path):
    begin = time.process_time()
    with Image.open(path) as picture:
        picture.load()
    return time.process_time() - begin


def test_the_same_arguments_give_the_same_small_file(tmp_path):
    path = write_slow_png(tmp_path / "a.png", 2000)
    assert path.read_bytes() == write_slow_png(tmp_path / "b.png", 2000).read_bytes()
    assert path.read_bytes() != write_slow_png(tmp_path / "c.png", 2000, seed=b"other").read_bytes()
    assert path.stat().st_size < 200_000


def test_it_is_lawful_and_no_row_is_like_its_neighbour(tmp_path):
    with Image.open(write_slow_png(tmp_path / "a.png", 100)) as picture:
        picture.verify()  # checks every checksum
    with Image.open(tmp_path / "a.png") as picture:
        rows = [picture.crop((0, y, 100, y + 1)).tobytes() for y in range(100)]
    assert all(a != b for a, b in zip(rows, rows[1:]))


def test_four_times_the_pixels_cost_at_least_twice_the_time(tmp_path):
    small, large = (write_slow_png(tmp_path / f"{side}.png", side) for side in (1500, 3000))
    assert (min(decode_cpu_seconds(large) for _ in range(3))
            > 2 * min(decode_cpu_seconds(small) for _ in range(3)))


def test_a_folder_holds_one_slow_sample_at_its_id(tmp_path):
    slow = write_one_slow(tmp_path / "set", count=20, slow=7, side=1000)
    files = sorted((tmp_path / "set" / "class").iterdir())
    assert len(files) == 20 and files[7] == slow
    sizes = []
    for path in files:
        with Image.open(path) as picture:
            sizes.append(picture.size)
    assert sizes.count((50, 50)) == 19 and sizes[7] == (1000, 1000)
