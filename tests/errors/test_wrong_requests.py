"""Mistakes in a spec and folders without pictures: one line that names the place, the right exit status."""

import os
import pathlib
import subprocess

import pytest

import test_card
from support.capi import Client, Error
from support.specs import id_spec, spec

QUICKSTART = pathlib.Path(__file__).parents[2] / "quickstart.sh"

WRONG = [
    ({"colour": 1}, "colour"),
    ({"batch": {"sice": 4}}, "batch.sice"),
    ({"batch": {"size": 0}}, "batch.size"),
    ({"batch": {"size": "many"}}, "batch.size"),
    ({"batch": {"last": "maybe"}}, "batch.last"),
    ({"order": {"policy": "soon"}}, "order.policy"),
    ({"output": {"dtype": "float64"}}, "output.dtype"),
    ({"output": {"dtype": "uint8"}}, "output.dtype"),
    ({"errors": {"policy": "ignore"}}, "errors.policy"),
    ({"errors": {"max_rate": 2}}, "errors.max_rate"),
    ({"shard": {"rank": 3, "world_size": 3}}, "shard.rank"),
    ({"profile": "exact"}, "profile"),
    ({"epochs": 0}, "epochs"),
    ({"pipeline": [{"op": "decode"}, {"op": "sharpen"}]}, "pipeline[1]"),
    ({"dataset": {"kind": "image_folder", "path": "/", "glob": "*"}}, "dataset.glob"),
]


@pytest.mark.parametrize("change, key", WRONG, ids=[key for _, key in WRONG])
def test_a_mistake_in_a_spec_names_the_key(daemon, id_set, change, key):
    with Client(daemon.socket) as client:
        with pytest.raises(Error) as refused:
            client.open(spec(id_set(12)) | change)
        assert refused.value.code == "SL_E_SPEC"
        assert key in refused.value.message
        stream = client.open(id_spec(id_set(12)))  # the connection is as good as before
        assert sum(len(batch.ids()) for batch in stream.batches()) == 12
        stream.close()


@pytest.fixture
def no_folder(open_folder):
    return open_folder / "not_there"


@pytest.fixture
def empty_folder(open_folder):
    return open_folder


@pytest.fixture
def folder_without_images(open_folder):
    test_card.junk(open_folder / "a" / "notes.txt")
    test_card.junk(open_folder / "b" / ".hidden.jpg")
    return open_folder


@pytest.mark.parametrize("folder", ["no_folder", "empty_folder", "folder_without_images"])
def test_a_folder_that_gives_no_sample_is_one_clear_line_and_exit_1(request, daemons, daemon, folder):
    path = request.getfixturevalue(folder)
    status, result, err = daemons.try_run(spec(path), daemon)
    assert status == 1 and result is None
    assert str(path) in err and err.count("\n") == 1


@pytest.mark.parametrize("folder", ["empty_folder", "folder_without_images"])
def test_the_same_holds_for_a_folder_named_on_the_command_line(request, daemons, daemon, folder):
    path = request.getfixturevalue(folder)
    status, _, err = daemons.try_run(path, daemon)
    assert status == 1
    assert str(path) in err and err.count("\n") == 1


@pytest.mark.parametrize("folder", ["no_folder", "empty_folder", "folder_without_images"])
def test_the_quickstart_refuses_such_a_folder_before_it_installs_anything(request, folder):
    path = request.getfixturevalue(folder)
    refused = subprocess.run([QUICKSTART, path], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and refused.stdout == ""
    assert str(path) in refused.stderr and refused.stderr.count("\n") == 1


def test_LDR_15_loops_broken_links_and_pipes_are_counted_and_never_opened(daemon, open_folder):
    for number in range(10):
        test_card.write_jpeg(open_folder / "a" / f"{number}.jpg")
    (open_folder / "a" / "loop").symlink_to("..")
    (open_folder / "a" / "broken.jpg").symlink_to("nowhere")
    os.mkfifo(open_folder / "a" / "pipe.jpg")
    with Client(daemon.socket) as client:
        stream = client.open(spec(open_folder, size=(8, 8), errors={"policy": "fail"}))
        ids = [i for batch in stream.batches() for i in batch.ids()]
        skipped = stream.report()["skipped_files"]
        stream.close()
    assert sorted(ids) == list(range(10))
    assert (skipped["broken"]["count"], skipped["special"]["count"]) == (1, 1)
    assert skipped["repeated"]["count"] == 1
