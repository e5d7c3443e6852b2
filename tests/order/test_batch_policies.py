"""Batches of every size over sets of every size, for one rank and for several (LDR-01, LDR-02)."""

import pytest

from support.capi import Client, Error
from support.specs import id_spec


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as made:
        yield made


def take(client, job):
    """[(ids, valid)] of each batch, and the number of batches announced before the first."""
    stream = client.open(job)
    announced = stream.batches_per_epoch
    batches = [(batch.ids(), batch.valid()) for batch in stream.batches()]
    report = stream.report()
    stream.close()
    assert len(batches) == announced
    assert report["epochs"][0]["missing"] == 0 and report["epochs"][0]["repeated"] == 0
    return batches


@pytest.mark.parametrize("count", [*range(1, 13), 40])
def test_LDR_01_drop_keep_and_pad_give_the_ids_that_they_promise(client, id_set, count):
    folder = id_set(count)
    for size in (1, 2, 3, 5, 9):
        plan = [i for ids, _ in take(client, id_spec(folder, batch=1, last="keep")) for i in ids]
        assert sorted(plan) == list(range(count))
        whole = [plan[at:at + size] for at in range(0, count, size)]

        kept = take(client, id_spec(folder, batch=size, last="keep"))
        assert kept == [(ids, [1] * len(ids)) for ids in whole]

        padded = take(client, id_spec(folder, batch=size, last="pad"))
        fill = size - len(whole[-1])
        assert padded[:-1] == kept[:-1]
        assert padded[-1][0][:len(whole[-1])] == whole[-1]
        assert padded[-1][1] == [1] * len(whole[-1]) + [0] * fill

        if count >= size:
            assert take(client, id_spec(folder, batch=size, last="drop")) == kept[:count // size]


def test_LDR_01_fewer_samples_than_a_batch_is_an_error_at_the_start_that_names_both_numbers(client, id_set):
    with pytest.raises(Error) as refused:
        client.open(id_spec(id_set(7), batch=128, last="drop"))
    assert refused.value.code == "SL_E_SPEC"
    assert "7" in refused.value.message and "128" in refused.value.message


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("count", [7, 12, 25])
def test_LDR_02_ranks_get_each_id_once_and_the_same_number_of_batches(client, id_set, count, world):
    ranks = [take(client, id_spec(id_set(count), batch=2, shard={"rank": rank, "world_size": world}))
             for rank in range(world)]
    assert len({tuple(len(ids) for ids, _ in batches) for batches in ranks}) == 1
    valid = [i for batches in ranks for ids, flags in batches for i, flag in zip(ids, flags) if flag]
    assert sorted(valid) == list(range(count))


@pytest.mark.parametrize("uneven", ["drop", "wrap"])
def test_LDR_02_uneven_ranks_may_drop_or_wrap_instead(client, id_set, uneven):
    count, world = 25, 3
    ranks = [take(client, id_spec(id_set(count), batch=2,
                                  shard={"rank": rank, "world_size": world, "uneven": uneven}))
             for rank in range(world)]
    assert len({tuple(len(ids) for ids, _ in batches) for batches in ranks}) == 1
    ids = [i for batches in ranks for ids, flags in batches for i, flag in zip(ids, flags) if flag]
    assert len(ids) == (24 if uneven == "drop" else 27)
    assert len(set(ids)) == min(len(ids), count)
