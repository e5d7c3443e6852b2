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
