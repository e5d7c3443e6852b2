"""A subset is a data set of its own to order, ranks, refill, report and positions; ids stay the whole's."""

import pytest

import test_card
from support.capi import Client, Error
from support.specs import id_spec

COUNT = 120  # three classes of 40


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as made:
        yield made


def subset_of(folder, subset, **options):
    job = id_spec(folder, batch=8, **options)
    return job | {"dataset": job["dataset"] | {"subset": subset}}


def run(client, job, state=None):
    """([ids of each batch], report); each picture shows its id."""
    stream = client.open(job, state=state)
    batches = []
    for batch in stream.batches():
        pixels = batch.array("image")[:, 0, 0]
        assert [test_card.id_of(pixel) for pixel in pixels] == batch.ids()
        batches.append(batch.ids())
    report = stream.report()
    stream.close()
    return batches, report


def flat(batches):
    return [sample_id for batch in batches for sample_id in batch]


def test_a_fraction_is_the_same_samples_for_every_seed_epoch_and_daemon(daemons, id_set):
    chosen = set()
    for seed, workers in ((1, 1), (2, 3)):
        with Client(daemons.start(workers=workers).socket) as client:
            batches, report = run(client, subset_of(id_set(COUNT), {"fraction": 0.25}, seed=seed, epochs=2))
        assert report["samples"] == 30 and report["stats"]["samples_in_dataset"] == COUNT
        first, second = flat(batches[:4]), flat(batches[4:])
        assert sorted(first) == sorted(second) and first != second
        chosen.add(tuple(sorted(first)))
    assert len(chosen) == 1
    (ids,) = chosen
    assert [sum(i // 40 == label for i in ids) for label in range(3)] == [10, 10, 10]  # each class its share


def test_without_shuffle_a_subset_keeps_the_order_of_the_ids(client, id_set):
    for subset in ({"fraction": 0.3}, {"ids": [119, 0, 64, 63]}, {"labels": [2, 0]}):
        ids = flat(run(client, subset_of(id_set(COUNT), subset, shuffle=False))[0])
        assert ids == sorted(set(ids))
    assert ids == [*range(40), *range(80, 120)]


def test_ranks_share_a_subset_and_its_report_adds_up(client, id_set):
    delivered = []
    for rank in range(3):
        shard = {"rank": rank, "world_size": 3}
        batches, report = run(client, subset_of(id_set(COUNT), {"ids": list(range(5, 55))}, shard=shard))
        account = report["epochs"][0]
        assert account["missing"] == account["repeated"] == 0 and account["complete"]
        assert account["delivered"] == account["planned"]
        delivered += flat(batches)[:account["planned"]]
    assert sorted(delivered) == list(range(5, 55))


def test_a_damaged_sample_is_named_by_its_own_id_and_replaced_from_the_subset(client, open_folder):
    paths = test_card.id_pictures(open_folder, 40)
    wanted = list(range(1, 40, 2))
    for sample_id in (7, 8, 21):
        test_card.cut(paths[sample_id], paths[sample_id], share=0.7)
    job = subset_of(open_folder, {"ids": wanted}, errors={"max_failures": 100, "max_rate": 1.0})
    batches, report = run(client, job)
    assert set(flat(batches)) == set(wanted) - {7, 21}
    named = {failure["sample_id"]: failure for failure in report["failures"]}
    assert set(named) == {7, 21}  # 8 is not in the subset and was not looked at
    for sample_id, failure in named.items():
        assert failure["path"] == str(paths[sample_id])
        assert failure["substitute"] in set(wanted) - {7, 21}


def test_a_subset_resumes_in_mid_epoch_and_its_account_covers_the_rest(client, id_set):
    job = subset_of(id_set(COUNT), {"fraction": 0.5}, seed=3)
    whole, _ = run(client, job)
    stream = client.open(job)
    for _ in range(3):
        stream.next()[1].release()
    state = stream.state()
    stream.close()
    batches, report = run(client, job, state)
    assert batches == whole[3:]
    account = report["epochs"][0]
    assert (account["resumed_at"], account["planned"], account["missing"]) == (3, 60 - 24, 0)
    for other in ({"fraction": 0.4}, {"labels": [0]}):
        with pytest.raises(Error, match="the state is of another dataset: dataset is "):
            client.open(subset_of(id_set(COUNT), other, seed=3), state=state)


def test_selections_of_the_same_samples_are_one_data_set(client, id_set):
    folder = id_set(COUNT)
    for labels, same in (([1], ({"labels": ["class_001"]}, {"ids": list(range(40, 80))})),
                         ([1, 0], ({"labels": [0, "class_001"]}, {"ids": list(range(80))}))):  # they touch
        stream = client.open(subset_of(folder, {"labels": labels}))
        state = stream.state()
        stream.close()
        for subset in same:
            client.open(subset_of(folder, subset), state=state).close()
    stream = client.open(id_spec(folder, batch=8))
    state = stream.state()
    stream.close()
    client.open(subset_of(folder, {"fraction": 1.0}), state=state).close()


@pytest.mark.parametrize("subset, message", [
    ({"labels": ["dog"]},
     'dataset.subset.labels has "dog", which is no class; classes: class_000, class_001, class_002'),
    ({"labels": [0, 3]}, "dataset.subset.labels has 3, allowed: less than the number of classes, 3"),
    ({"ids": [5, COUNT]}, "dataset.subset.ids has 120, allowed: less than the dataset's samples, 120"),
    ({"fraction": 0.004}, "dataset.subset.fraction is 0.004, which is none of 120 samples"),
])
def test_what_the_folder_does_not_have_is_refused_with_its_key(client, id_set, subset, message):
    with pytest.raises(Error) as refused:
        client.open(subset_of(id_set(COUNT), subset))
    assert refused.value.code == "SL_E_SPEC" and refused.value.message == message


def test_a_pipeline_without_a_size_takes_the_first_selected_pictures(client, tmp_path):
    test_card.id_pictures(tmp_path / "a", 2, size=(4, 4))
    test_card.id_pictures(tmp_path / "b", 3, size=(6, 2))
    job = subset_of(tmp_path, {"labels": ["b"]})
    job["pipeline"] = [{"op": "decode", "channels": 3}]
    stream = client.open(job)
    (batch,) = [batch.array("image").shape for batch in stream.batches()]
    assert batch == (3, 2, 6, 3)
    stream.close()
