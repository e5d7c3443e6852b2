"""`sl.Mix`: several folders as one data set; what it must be is the daemon's to say, and is a SpecError."""

import pathlib

import pytest
import speedyloader as sl

FEW, MANY = 20, 60  # pictures, in three classes each


@pytest.fixture
def few(id_set):
    return id_set(FEW)


@pytest.fixture
def many(id_set):
    return id_set(MANY)


def epoch(loader):
    """[(sample ids, labels) of each batch]."""
    return [tuple(values.tolist() for values in batch.numpy("sample_id", "label")) for batch in loader]


def ids(batches):
    return [sample_id for batch, _ in batches for sample_id in batch]


def test_a_loader_over_a_mix_gives_every_sample_of_each_part_and_then_again(make, few, many):
    loader = make(sl.Mix([few, sl.ImageFolder(many)]), last="keep")
    assert len(loader) == (FEW + MANY) // 8 and loader.info["samples"] == FEW + MANY
    assert loader.classes == ["class_000", "class_001", "class_002"]
    first, second = epoch(loader), epoch(loader)
    assert sorted(ids(first)) == sorted(ids(second)) == list(range(FEW + MANY))
    assert ids(first) != ids(second)
    for batch, labels in first:
        for sample_id, label in zip(batch, labels, strict=True):
            own, size = (sample_id, FEW) if sample_id < FEW else (sample_id - FEW, MANY)
            assert label == own * 3 // size


def test_weights_are_exact_proportions_in_every_batch(make, few, many):
    loader = make(sl.Mix((few, many), weights=(1, 2)), batch_size=12)
    assert len(loader) == 5
    for _ in range(2):
        batches = epoch(loader)
        assert [sum(i < FEW for i in batch) for batch, _ in batches] == [4] * 5


def test_a_mix_goes_on_where_its_state_was_saved(make, few, many):
    mixed = sl.Mix([few, sl.ImageFolder(many, subset={"labels": ["class_001"]})], weights=[1, 1])
    whole = epoch(make(mixed))
    loader = make(mixed)
    taken = [batch.numpy("sample_id").tolist() for _, batch in zip(range(3), loader)]
    resumed = make(mixed)
    resumed.load_state_dict(loader.state_dict())
    assert taken + [batch for batch, _ in epoch(resumed)] == [batch for batch, _ in whole]
    with pytest.raises(sl.SpecError, match="another dataset: dataset is "):
        make(sl.Mix([few, many])).load_state_dict(loader.state_dict())


def test_the_spec_has_absolute_paths_and_only_what_was_said(few, many, monkeypatch):
    monkeypatch.chdir(few.parent)
    assert sl.Mix([few.name, pathlib.Path(many.name)]).spec() == {
        "kind": "mix", "parts": [{"kind": "image_folder", "path": str(few)},
                                 {"kind": "image_folder", "path": str(many)}]}
    assert sl.Mix([sl.ImageFolder(few, subset={"ids": [1]})], weights=[2], max_pixels=9).spec() == {
        "kind": "mix", "parts": [{"kind": "image_folder", "path": str(few), "subset": {"ids": [1]}}],
        "weights": [2], "max_pixels": 9}


def test_numpys_numbers_are_weights_and_max_pixels_reaches_the_daemon(make, few):
    numpy = pytest.importorskip("numpy")
    loader = make(sl.Mix([few, few], weights=numpy.float32([0.5, 0.5]), max_pixels=3), [sl.Resize((1, 1))],
                  errors="placeholder", epochs=1)
    assert loader.spec["dataset"]["weights"] == [0.5, 0.5]
    assert not any(batch.numpy("valid").any() for batch in loader)
    assert {failure["kind"] for failure in loader.report()["failures"]} == {"pixel_budget"}


@pytest.mark.parametrize("mixed, message", [
    (lambda few: sl.Mix(few), "parts is .*, allowed: a list of paths and ImageFolders"),
    (lambda few: sl.Mix([few, 3]), "a part is 3, allowed: a path or an ImageFolder"),
    (lambda few: sl.Mix([]), "dataset.parts is an array of 0, allowed"),
    (lambda few: sl.Mix([sl.Mix([few])]), r"dataset.parts\[0\].kind is .mix., allowed: image_folder"),
    (lambda few: sl.Mix([sl.ImageFolder(few, max_pixels=3)]), r"dataset.parts\[0\].max_pixels is not a known key"),
    (lambda few: sl.Mix([few], weights=[1, 2]), "dataset.weights is an array of 2"),
    (lambda few: sl.Mix([few], weights=[float("nan")]), r"dataset.weights\[0\] is nan"),
    (lambda few: sl.Mix([few, few], weights=[1, 0.001]), r"dataset.weights\[1\] is 0.001, which is 0.02 samples"),
])
def test_what_is_no_mix_is_a_SpecError_that_names_it(make, few, mixed, message):
    with pytest.raises(sl.SpecError, match=message):
        make(mixed(few))


def test_a_part_that_is_not_there_is_a_NotFoundError_that_names_it(make, few):
    with pytest.raises(sl.NotFoundError, match=r"dataset.parts\[1\]: .*/nowhere"):
        make(sl.Mix([few, "/nowhere"]))
