"""What sl_make_photos promises: the same photographs for the same arguments, of the sizes that it names."""

import os
import pathlib
import statistics
import subprocess

import pytest
from PIL import Image, JpegImagePlugin

FEW = ("--source", "/usr/share/backgrounds/mate/nature")  # a dozen wallpapers are quicker than all
PROGRAM = pathlib.Path(os.environ.get("SL_BUILD_DIR", "build/dev")) / "bin" / "sl_make_photos"


def make(folder, *arguments):
    return subprocess.run([PROGRAM, folder, *arguments], capture_output=True, text=True, check=False,
                          timeout=120)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*.jpg"))}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs") / "set"
    done = make(folder, "--count", "150", "--seed", "3", *FEW)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_same_arguments_give_the_same_bytes(photographs, tmp_path):
    assert make(tmp_path / "again", "--count", "150", "--seed", "3", *FEW).returncode == 0
    assert contents(tmp_path / "again") == contents(photographs)


def test_another_seed_gives_other_photographs(photographs, tmp_path):
    assert make(tmp_path / "other", "--count", "20", "--seed", "4", *FEW).returncode == 0
    assert not set(contents(tmp_path / "other").values()) & set(contents(photographs).values())


def test_every_class_has_its_share_and_no_two_photographs_are_equal(photographs):
    files = contents(photographs)
    assert len(set(files.values())) == 150
    classes = [folder for folder in photographs.iterdir() if folder.is_dir()]
    assert [len(list(folder.iterdir())) for folder in classes] == [15] * 10


def test_sizes_and_sampling_are_like_those_of_imagenet(photographs):
    longest, sampling, aspects = [], [], []
    for path in photographs.rglob("*.jpg"):
        with Image.open(path) as picture:
            longest.append(max(picture.size))
            aspects.append(picture.width / picture.height)
            sampling.append(JpegImagePlugin.get_sampling(picture))
    assert 420 < statistics.median(longest) < 540
    assert all(0.6 < aspect < 0.9 or 1.15 < aspect < 1.55 for aspect in aspects)
    assert 0.6 < sum(aspect > 1 for aspect in aspects) / 150 < 0.8
    assert 0.7 < sampling.count(2) / 150 < 0.9 and sampling.count(2) + sampling.count(0) == 150


def test_a_finished_set_is_left_alone_and_another_set_is_refused(photographs):
    before = {path: path.stat().st_mtime_ns for path in photographs.rglob("*")}
    assert make(photographs, "--count", "150", "--seed", "3", *FEW).returncode == 0
    refused = make(photographs, "--count", "10")
    assert refused.returncode == 1 and "holds another set" in refused.stderr
    assert {path: path.stat().st_mtime_ns for path in photographs.rglob("*")} == before


def test_a_folder_without_wallpapers_gives_one_clear_line(tmp_path):
    done = make(tmp_path / "none", "--source", tmp_path / "nowhere")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no JPEG over 100 kB" in done.stderr


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rare") / "set"
    assert make(folder, "--count", "100", "--set", "A", *FEW).returncode == 0
    return folder


def test_set_a_has_one_progressive_picture_of_24_megapixels_in_a_hundred(rare):
    heavy, = rare.rglob("heavy_*.jpg")
    with Image.open(heavy) as picture:
        assert picture.size == (6000, 4000) and picture.info.get("progressive")
        picture.load()  # it is whole
    others = list(rare.rglob("photo_*.jpg"))
    assert len(others) == 99
    for path in others:
        with Image.open(path) as picture:
            assert picture.width * picture.height < 3e6 and not picture.info.get("progressive")


def test_a_set_is_the_same_bytes_again_and_not_taken_for_another(rare, tmp_path):
    assert make(tmp_path / "again", "--count", "100", "--set", "A", *FEW).returncode == 0
    assert contents(tmp_path / "again") == contents(rare)
    refused = make(rare, "--count", "100", "--set", "D", *FEW)
    assert refused.returncode == 1 and "holds another set" in refused.stderr


def pixels(folder):
    sizes = []
    for path in folder.rglob("*.jpg"):
        with Image.open(path) as picture:
            sizes.append(picture.width * picture.height)
    return sizes


def test_set_b_spreads_c_has_a_fifth_of_large_ones_and_d_has_one_size(tmp_path):
    for name, count in (("B", 150), ("C", 20), ("D", 40)):
        assert make(tmp_path / name, "--count", str(count), "--set", name, *FEW).returncode == 0
    spread = pixels(tmp_path / "B")
    assert 0.4 < statistics.pstdev(spread) / statistics.fmean(spread) < 1.1
    heavy = {path.name for path in (tmp_path / "C").rglob("heavy_*.jpg")}
    large = sorted(pixels(tmp_path / "C"))
    assert len(heavy) == 4 and large[-4] > 8 * large[-5]
    assert set(pixels(tmp_path / "D")) == {pixels(tmp_path / "D")[0]}


def test_a_set_that_is_none_is_wrong_use(tmp_path):
    for name in ("E", "AB", ""):
        assert make(tmp_path / "none", "--set", name).returncode == 2
    assert not (tmp_path / "none").exists()
