"""What of a data set is delivered, and what becomes of a position when the data set has changed."""

import shutil

import pytest
import speedyloader as sl

COUNT = 60  # pictures in three classes of 20
WAIT_S = 60


@pytest.fixture
def folder(id_set):
    return id_set(COUNT)


@pytest.fixture
def make(shared_daemon):
    """make(dataset, ...): a loader of id pictures, ended with the test."""
    made = []

    def begin(dataset, **options):
        defaults = {"batch_size": 5, "last": "keep", "dtype": "uint8", "timeout": WAIT_S,
                    "socket": str(shared_daemon.socket)}
        made.append(sl.Loader(dataset, [sl.Resize((2, 2))], **defaults | options))
        return made[-1]

    yield begin
    for loader in made:
        loader.close()


def ids(loader):
    """Of one epoch."""
    return [sample_id for batch in loader for sample_id in batch.numpy("sample_id").tolist()]


def test_a_subset_by_fraction_ids_or_labels_gives_just_those_samples_under_their_own_ids(make, folder):
    tenth = make(sl.ImageFolder(folder, subset={"fraction": 0.1}), shuffle=False)
    assert len(ids(tenth)) == tenth.info["samples"] == 6
    assert ids(make(sl.ImageFolder(folder, subset={"ids": [59, 7, 30]}), shuffle=False)) == [7, 30, 59]
    by_name = make(sl.ImageFolder(folder, subset={"labels": ["class_001"]}))
    assert by_name.classes == ["class_000", "class_001", "class_002"]
    for batch in by_name:
        assert batch.numpy("label").tolist() == [1] * batch.count
    assert sorted(ids(by_name)) == list(range(20, 40))
    assert sorted(ids(make(sl.ImageFolder(folder, subset={"labels": ["class_000", 2]})))) == \
        [*range(20), *range(40, 60)]


def test_numpys_integers_are_ids_and_labels_too(make, folder):
    numpy = pytest.importorskip("numpy")
    subset = {"ids": list(numpy.arange(3, 12, 4))}
    assert ids(make(sl.ImageFolder(folder, subset=subset), shuffle=False)) == [3, 7, 11]


@pytest.mark.parametrize("subset, key", [
    ({"fraction": 0}, "dataset.subset.fraction"), ({"fraction": 0.001}, "dataset.subset.fraction"),
    ({"ids": []}, "dataset.subset.ids"), ({"ids": [60]}, "dataset.subset.ids"),
    ({"ids": [1, 1]}, "dataset.subset.ids"), ({"labels": ["dog"]}, "dataset.subset.labels"),
    ({"labels": [3]}, "dataset.subset.labels"), ({"labels": []}, "dataset.subset.labels"),
    ({"half": True}, "dataset.subset.half"), ({}, "dataset.subset"), ("all", "dataset.subset"),
])
def test_a_subset_that_is_empty_or_unknown_is_a_spec_error_that_names_its_key(make, folder, subset, key):
    with pytest.raises(sl.SpecError) as refused:
        make(sl.ImageFolder(folder, subset=subset))
    assert key in str(refused.value)


def test_a_position_goes_on_in_its_subset_and_in_no_other(make, folder):
    half = sl.ImageFolder(folder, subset={"fraction": 0.5})
    whole_run = ids(make(half))
    loader = make(half)
    taken = [i for _, batch in zip(range(3), loader) for i in batch.numpy("sample_id").tolist()]
    state = loader.state_dict()
    resumed = make(half)
    resumed.load_state_dict(state)
    assert taken + ids(resumed) == whole_run
    for other in (sl.ImageFolder(folder), sl.ImageFolder(folder, subset={"fraction": 0.25})):
        with pytest.raises(sl.SpecError, match="another dataset: dataset is "):
            make(other).load_state_dict(state)


def test_a_position_of_a_changed_data_set_is_refused_unless_on_change_allows_it(make, folder, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    before = make(changed)
    for _ in zip(range(8), before):
        pass
    state = before.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 8)
    files = sorted(changed.rglob("*.png"))
    files[7].unlink()
    with make(changed) as loader:
        with pytest.raises(sl.SpecError) as refused:
            loader.load_state_dict(state)
        assert "samples is 60 in the state and 59 here" in str(refused.value)
        with pytest.raises(sl.SpecError, match="on_change is 'perhaps'"):
            loader.load_state_dict(state, on_change="perhaps")

        whole = [batch.numpy("sample_id").tolist() for batch in loader]
        loader.load_state_dict(state, on_change="allow")
        now = loader.state_dict()
        assert (now["epoch"], now["batch"], now["samples"]) == (0, 8, 59)
        assert now["dataset"] != state["dataset"]
        assert [batch.numpy("sample_id").tolist() for batch in loader] == whole[8:]
        account = loader.report()["epochs"][0]
        assert account["resumed_at"] == 8 and account["missing"] == account["repeated"] == 0
        loader.load_state_dict(now)  # its own state now, and needs no permission

    for path in files[20:60]:
        path.unlink()
    with make(changed) as loader, pytest.raises(sl.SpecError, match="state.batch is 8, allowed: less than"):
        loader.load_state_dict(state, on_change="allow")


def test_on_change_forgives_nothing_but_the_data_set(make, folder):
    state = make(folder, seed=1).state_dict()
    with pytest.raises(sl.SpecError, match="seed is 1 in the state and 2 here"):
        make(folder, seed=2).load_state_dict(state, on_change="allow")
