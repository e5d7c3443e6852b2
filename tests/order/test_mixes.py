"""A mix delivers each part's share in every stretch of an epoch, under ids and labels of its own, each sample
once, and goes on from any place of it as if it had never stopped."""

import json

import pytest

import test_card
from support.capi import END, OK, Client, Error
from support.specs import id_spec

PHOTOS, DRAWINGS, SCANS = 60, 24, 90  # samples of the parts
SIZES = [PHOTOS, DRAWINGS, SCANS]
FIRST = [0, 60, 84]  # ids of each part begin here
CLASSES = ["cat", "cow", "dog", "owl"]  # of all parts, sorted
PART_CLASSES = [["cat", "dog"], ["cow", "dog", "owl"], ["owl"]]
EVEN = [20, 8, 30]  # samples of the parts in an epoch, of weights 2, 0.8 and 3 where the first has 20


def labelled(folder, count, classes):
    """Id pictures in classes of these names; their paths by id."""
    test_card.id_pictures(folder, count, classes=len(classes), size=(2, 2))
    for label, name in enumerate(classes):
        (folder / f"class_{label:03d}").rename(folder / name)
    return sorted(folder.glob("*/*.png"))


@pytest.fixture(scope="module")
def folders(session_folder):
    made = [session_folder / f"part_{i}" for i in range(3)]
    for folder, count, classes in zip(made, SIZES, PART_CLASSES, strict=True):
        assert len(labelled(folder, count, classes)) == count
    return made


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as made:
        yield made


def mix(folders, weights=None, subsets=None, **options):
    job = id_spec(folders[0], **options)
    parts = [{"kind": "image_folder", "path": str(folder)} for folder in folders]
    for i, subset in (subsets or {}).items():
        parts[i]["subset"] = subset
    dataset = {"kind": "mix", "parts": parts}
    return job | {"dataset": dataset if weights is None else dataset | {"weights": weights}}


def part_of(sample_id):
    return max(i for i, first in enumerate(FIRST) if first <= sample_id)


def run(client, job, state=None):
    """([(epoch, batch, ids, valid)], report); each picture shows the id that it has in its part."""
    stream = client.open(job, state=state)
    batches = []
    for batch in stream.batches():
        for sample_id, pixel, valid in zip(batch.ids(), batch.array("image")[:, 0, 0], batch.valid()):
            assert not valid or test_card.id_of(pixel) == sample_id - FIRST[part_of(sample_id)]
        batches.append((*batch.place()[:2], batch.ids(), batch.valid()))
    report = stream.report()
    stream.close()
    return batches, report


def ids_of(batches, epoch=0):
    return [i for e, _, ids, valid in batches if e == epoch for i, v in zip(ids, valid) if v]


def assert_adds_up(report):
    for account in report["epochs"]:
        assert account["complete"] and account["missing"] == account["repeated"] == 0
        assert account["delivered"] + account["failed"] == account["planned"]


def test_without_weights_each_sample_of_each_part_comes_once_an_epoch(client, folders):
    batches, report = run(client, mix(folders, epochs=2))
    for epoch in range(2):
        assert sorted(ids_of(batches, epoch)) == list(range(sum(SIZES)))
    assert ids_of(batches, 0) != ids_of(batches, 1)
    assert report["samples"] == report["stats"]["samples_in_dataset"] == sum(SIZES)
    assert_adds_up(report)


def test_labels_are_numbers_of_the_classes_of_all_parts(client, folders):
    stream = client.open(mix(folders))
    assert stream.report()["classes"] == CLASSES
    seen = set()
    for batch in stream.batches():
        for sample_id, label in zip(batch.ids(), batch.array("label").tolist()):
            part = part_of(sample_id)
            own = PART_CLASSES[part]
            name = own[(sample_id - FIRST[part]) * len(own) // SIZES[part]]
            assert CLASSES[label] == name
            seen.add((part, name))
    stream.close()
    assert len(seen) == 6


def test_every_batch_has_the_parts_in_proportion_to_their_weights(client, folders):
    batches, report = run(client, mix(folders, weights=[2, 0.8, 3], subsets={0: {"fraction": 1 / 3}},
                                      batch=29, epochs=9))
    assert report["samples"] == sum(EVEN) and len(batches) == 18
    for _, _, ids, _ in batches:
        shares = [[part_of(i) for i in ids].count(part) for part in range(3)]
        assert all(abs(got - count / 2) <= 1 for got, count in zip(shares, EVEN)), shares
    for epoch in range(9):
        ids = ids_of(batches, epoch)
        assert [[part_of(i) for i in ids].count(part) for part in range(3)] == EVEN
        assert len(set(ids)) == len(ids)
    for part, epochs in ((1, 3), (2, 3)):  # 24 / 8 and 90 / 30 epochs until each has come
        for first in range(0, 9, epochs):
            seen = {i for e in range(first, first + epochs) for i in ids_of(batches, e) if part_of(i) == part}
            assert len(seen) == SIZES[part]
    assert_adds_up(report)


def test_without_shuffle_each_part_keeps_the_order_of_its_files(client, folders):
    batches, _ = run(client, mix(folders, weights=[1, 1, 1], shuffle=False, epochs=3))
    for part, (first, size) in enumerate(zip(FIRST, SIZES)):
        ids = [i - first for epoch in range(3) for i in ids_of(batches, epoch) if part_of(i) == part]
        assert ids == [number % size for number in range(3 * DRAWINGS)]


def test_one_part_alone_is_the_folder_itself(client, folders):
    alone, _ = run(client, id_spec(folders[0], seed=5, epochs=2))
    assert run(client, mix(folders[:1], seed=5, epochs=2))[0] == alone


def test_the_same_folder_twice_is_two_parts_in_different_orders(client, folders):
    stream = client.open(mix([folders[1], folders[1]], subsets={1: {"labels": [2]}}))
    ids = [i for batch in stream.batches() for i in batch.ids()]
    stream.close()
    assert sorted(ids) == [*range(24), *range(24 + 16, 48)]
    stream = client.open(mix([folders[1], folders[1]]))
    ids = [i for batch in stream.batches() for i in batch.ids()]
    stream.close()
    assert [i for i in ids if i < 24] != [i - 24 for i in ids if i >= 24]


def test_any_number_of_workers_and_every_batch_policy_gives_the_planned_ids(daemons, folders):
    for last in ("drop", "keep", "pad"):
        job = mix(folders, weights=[1, 1, 1], batch=16, last=last, epochs=2, seed=3)
        runs = []
        for workers, env in ((1, {}), (3, {"SPEEDYLOADER_TEST_DELAY_US": 1000})):
            with Client(daemons.start(workers=workers, env=env).socket) as client:
                batches, report = run(client, job)
                assert_adds_up(report)
                runs.append(batches)
        assert runs[0] == runs[1]
        assert [len(ids_of(runs[0], epoch)) for epoch in range(2)] == [64 if last == "drop" else 72] * 2
        assert {len(ids) for _, _, ids, _ in runs[0]} == ({16, 8} if last == "keep" else {16})


def test_ready_gives_each_sample_of_the_epoch_once(daemons, folders):
    with Client(daemons.start(workers=3, env={"SPEEDYLOADER_TEST_DELAY_US": 1000}).socket) as client:
        planned, _ = run(client, mix(folders, weights=[1, 1, 1], epochs=2))
        ready, report = run(client, mix(folders, weights=[1, 1, 1], epochs=2, policy="ready"))
    assert_adds_up(report)
    for epoch in range(2):
        assert sorted(ids_of(ready, epoch)) == sorted(ids_of(planned, epoch))


# ---- positions ----


def on_ranks(client, job, world, batch, state, most):
    """The ids of the global batches that `world` ranks take together, and the state they then share."""
    taken, states = [], set()
    for rank in range(world):
        stream = client.open(job | {"batch": job["batch"] | {"size": batch // world},
                                    "shard": {"rank": rank, "world_size": world}}, state=state)
        mine = []
        while len(mine) < most:
            status, got = stream.next()
            if status == END:
                break
            if status == OK:
                mine.append(got.ids())
                got.release()
        states.add(stream.state())
        stream.close()
        taken.append(mine)
    (after,) = states
    return [[i for ids in ranks for i in ids] for ranks in zip(*taken, strict=True)], after


def test_a_position_goes_on_as_the_uninterrupted_run_on_any_number_of_ranks(daemons, folders):
    job = mix(folders, weights=[2, 0.8, 3], subsets={0: {"fraction": 1 / 3}}, batch=8, epochs=4, seed=9)
    with Client(daemons.start(workers=1).socket) as client:
        batches, report = run(client, job)
        whole = [ids for _, _, ids, _ in batches]
        assert len(whole) == 4 * 8
        stream = client.open(job)
        template = json.loads(stream.state())
        stream.close()
    with Client(daemons.start(workers=3, env={"SPEEDYLOADER_TEST_DELAY_US": 500}).socket) as client:
        for point in (0, 1, 7, 8, 13, 20, 31):
            state = json.dumps(template | {"epoch": point // 8, "batch": point % 8})
            for world in (1, 2):
                got, after = on_ranks(client, job, world, 8, state, 5)
                assert got == whole[point:point + 5]
                end = min(point + 5, 32)
                assert json.loads(after) == template | {"epoch": end // 8, "batch": end % 8}
        resumed, report = run(client, job, json.dumps(template | {"epoch": 1, "batch": 5}))
    assert [ids for _, _, ids, _ in resumed] == whole[13:]
    assert_adds_up(report)
    assert (report["epochs"][0]["resumed_at"], report["epochs"][0]["planned"]) == (5, sum(EVEN) - 40)


def test_a_position_of_another_mix_is_refused(client, folders):
    stream = client.open(mix(folders, weights=[1, 1, 1]))
    state = stream.state()
    stream.close()
    client.open(mix(folders, weights=[5, 5, 5]), state=state).close()
    for other in (mix(folders), mix(folders, weights=[1, 1, 2]), mix(folders[::-1], weights=[1, 1, 1]),
                  mix(folders, weights=[1, 1, 1], subsets={2: {"labels": ["owl"]}, 0: {"labels": ["dog"]}})):
        with pytest.raises(Error, match="the state is of another dataset: dataset is "):
            client.open(other, state=state)


# ---- bad samples, and what is no mix ----


def test_a_damaged_sample_is_named_with_its_path_and_replaced_from_the_epoch(client, tmp_path):
    parts = [tmp_path / "a", tmp_path / "b"]
    labelled(parts[0], 20, ["x"])
    paths = labelled(parts[1], 30, ["y", "z"])
    for own_id in (3, 17):
        test_card.cut(paths[own_id], paths[own_id], share=0.7)
    job = mix(parts, batch=10, errors={"max_failures": 100, "max_rate": 1.0})
    runs = []
    for _ in range(2):
        stream = client.open(job)
        runs.append([batch.ids() for batch in stream.batches()])
        report = stream.report()
        stream.close()
        assert_adds_up(report)
        assert {i for ids in runs[-1] for i in ids} == set(range(50)) - {23, 37}
        assert all(len(set(ids)) == 10 for ids in runs[-1])
        named = {failure["sample_id"]: failure["path"] for failure in report["failures"]}
        assert named == {23: str(paths[3]), 37: str(paths[17])}
    assert runs[0] == runs[1]


def test_a_part_that_cannot_be_had_is_an_error_that_says_which(client, folders, tmp_path):
    (tmp_path / "empty").mkdir()
    for second, code, message in (
            (tmp_path / "none", "SL_E_NOT_FOUND", f'dataset.parts[1]: dataset folder "{tmp_path}/none"'),
            (tmp_path / "empty", "SL_E_DATASET", f'dataset.parts[1]: dataset folder "{tmp_path}/empty"')):
        with pytest.raises(Error) as refused:
            client.open(mix([folders[0], second]))
        assert refused.value.code == code and refused.value.message.startswith(message)


@pytest.mark.parametrize("options, message", [
    ({"subsets": {1: {"labels": ["fox"]}}},
     'dataset.parts[1].subset.labels has "fox", which is no class; classes: cow, dog, owl'),
    ({"subsets": {1: {"labels": [3]}}},
     "dataset.parts[1].subset.labels has 3, allowed: less than the number of classes, 3"),
    ({"subsets": {2: {"ids": [90]}}},
     "dataset.parts[2].subset.ids has 90, allowed: less than the dataset's samples, 90"),
    ({"subsets": {0: {"fraction": 0.001}}},
     "dataset.parts[0].subset.fraction is 0.001, which is none of 60 samples"),
    ({"weights": [1, 1, 0.015625]},
     "dataset.weights[2] is 0.015625, which is 0.375 samples an epoch, beside all 24 of dataset.parts[1] with "
     "weight 1; allowed: at least half a sample"),
    ({"weights": [1, 1]},
     "dataset.weights is an array of 2, allowed: a number above 0 for each part, 3 in all"),
])
def test_what_is_no_mix_is_refused_with_its_key(client, folders, options, message):
    with pytest.raises(Error) as refused:
        client.open(mix(folders, **options))
    assert refused.value.code == "SL_E_SPEC" and refused.value.message == message


# ---- scans ----


def test_each_folder_of_a_mix_is_scanned_once_and_its_manifest_used_afterwards(daemons, folders):
    job = mix([folders[0], folders[1], folders[0]], weights=[1, 1, 1])
    daemon = daemons.start()
    with Client(daemon.socket) as client:
        stream = client.open(job)
        parts = stream.report()["parts"]
        stream.close()
    assert (daemon.status()["scans_made"], daemon.status()["manifests_used"]) == (2, 0)
    assert [part["path"] for part in parts] == [str(folders[i]) for i in (0, 1, 0)]
    assert [(p["first_id"], p["samples_in_folder"], p["selected"], p["samples"]) for p in parts] == \
        [(0, 60, 60, 24), (60, 24, 24, 24), (84, 60, 60, 24)]
    assert all(part["manifest"]["kept"] for part in parts)
    restarted = daemons.start()
    with Client(restarted.socket) as client:
        stream = client.open(job)
        assert all(part["manifest"]["used"] for part in stream.report()["parts"])
        stream.close()
    assert (restarted.status()["scans_made"], restarted.status()["manifests_used"]) == (0, 2)


def test_a_mix_without_a_size_takes_its_first_pictures(client, folders):
    job = mix(folders[1:])
    job["pipeline"] = [{"op": "decode", "channels": 3}]
    stream = client.open(job)
    assert {batch.array("image").shape[1:] for batch in stream.batches()} == {(2, 2, 3)}
    stream.close()


def test_speedyctl_runs_a_mix_of_relative_paths(daemons, daemon, folders, monkeypatch):
    monkeypatch.chdir(folders[0].parent)
    result = daemons.run(mix([folder.name for folder in folders], epochs=2), daemon)
    assert [sorted(ids) for ids in result["ids"]] == [list(range(sum(SIZES)))] * 2
