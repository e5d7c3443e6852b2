"""speedyloader.torch.DataLoader gives what torch's loader gives: for any items, samplers and workers, in any
start method, over epochs, whatever happens in between."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from guest_items import Growing, Hesitant, Made, Noisy, Squares, anything, as_list, makers, same  # noqa: E402
from guest_loaders import assert_same_batches, opened, torchs  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
PROCESSES = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(function):
    """What it gives, or the class of what it raises."""
    try:
        return function()
    except Exception as error:
        return type(error)


@given(make=makers(), count=st.integers(1, 30), size=st.integers(1, 9), drop_last=st.booleans(),
       shuffle=st.booleans(), workers=st.integers(1, 3))
@PROCESSES
def test_items_of_tensors_arrays_and_numbers(shared_daemon, make, count, size, drop_last, shuffle, workers):
    dataset = Made(make, count)
    options = {"batch_size": size, "drop_last": drop_last, "shuffle": shuffle}
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    with opened(shared_daemon, dataset, num_workers=workers, generator=generators[0], **options) as loader:
        for epoch in range(2):
            ours = list(loader)
            assert_same_batches(ours, torchs(dataset, epoch, generator=generators[1], **options))
            assert len(loader) == len(ours)
        assert loader.stats()["pickled"] == 0


@given(items=st.lists(anything(), min_size=1, max_size=12), size=st.integers(1, 5), workers=st.integers(1, 3))
@PROCESSES
def test_items_of_any_kind_with_a_collate_fn(shared_daemon, items, size, workers):
    dataset = Made(items.__getitem__, len(items))
    options = {"batch_size": size, "collate_fn": as_list}
    with opened(shared_daemon, dataset, num_workers=workers, **options) as loader:
        assert_same_batches(list(loader), torchs(dataset, **options))


@given(items=st.lists(anything(), min_size=1, max_size=6))
@PROCESSES
def test_items_of_any_kind_as_they_are(shared_daemon, items):
    dataset = Made(items.__getitem__, len(items))
    with opened(shared_daemon, dataset, batch_size=None) as loader:
        assert_same_batches(list(loader), torchs(dataset, batch_size=None))


@given(item=anything(), count=st.integers(1, 4), size=st.integers(1, 3))
@PROCESSES
def test_default_collate_takes_and_refuses_what_torchs_takes_and_refuses(shared_daemon, item, count, size):
    dataset = Made(lambda index: item, count)
    with opened(shared_daemon, dataset, batch_size=size) as loader:
        ours = outcome(lambda: list(loader))
    theirs = outcome(lambda: torchs(dataset, batch_size=size))
    assert same(ours, theirs), (ours, theirs)


@given(batches=st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=6), min_size=1, max_size=8))
@PROCESSES
def test_batch_samplers_whose_batches_have_any_sizes(shared_daemon, batches):
    with opened(shared_daemon, Noisy(20), batch_sampler=batches) as loader:
        assert_same_batches(list(loader), torchs(Noisy(20), batch_sampler=batches))
        assert len(loader) == len(batches)


@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("forkserver", 2), ("spawn", 1)])
def test_start_methods_and_random_items(shared_daemon, method, workers):
    options = {"batch_size": 4, "shuffle": True}
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    with opened(shared_daemon, Noisy(30), multiprocessing_context=method, num_workers=workers,
                generator=generators[0], **options) as loader:
        for epoch in range(2):
            assert_same_batches(list(loader), torchs(Noisy(30), epoch, generator=generators[1], **options))


def test_LDR_04_an_items_draws_are_its_own_whoever_makes_it_and_differ_by_item_and_epoch(shared_daemon):
    seen = []
    for workers in (1, 2, 7):
        options = {"batch_size": 4, "shuffle": True, "generator": torch.Generator().manual_seed(3)}
        with opened(shared_daemon, Hesitant(60), num_workers=workers, **options) as loader:
            seen.append([list(loader) for _ in range(2)])
    assert same(seen[0], seen[1]) and same(seen[0], seen[2])
    for draws in (1, 2, 3):  # of random, NumPy and torch
        drawn = [str(row.tolist()) for epoch in seen[0] for batch in epoch for row in batch[draws]]
        assert len(set(drawn)) == len(drawn) == 120


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70])
def test_any_number_is_a_seed(shared_daemon, seed):
    with opened(shared_daemon, Noisy(20), batch_size=4, seed=seed) as loader:
        ours = list(loader)
        assert [len(batch[0]) for batch in ours] == [4] * 5
    with opened(shared_daemon, Noisy(20), batch_size=4, seed=seed, num_workers=1) as loader:
        assert_same_batches(list(loader), ours)


@pytest.mark.parametrize("sampler", [
    lambda: data.RandomSampler(range(20), generator=torch.Generator().manual_seed(1)),
    lambda: data.RandomSampler(range(20), replacement=True, num_samples=33, generator=torch.Generator().manual_seed(1)),
    lambda: data.WeightedRandomSampler(np.arange(20.0), 30, generator=torch.Generator().manual_seed(1)),
    lambda: data.SubsetRandomSampler([3, 1, 4], generator=torch.Generator().manual_seed(1)),
    lambda: data.DistributedSampler(range(20), num_replicas=3, rank=1, shuffle=True),
    lambda: [3, 1, 4, 1, 5], lambda: (i for i in (3, 1, 4)), lambda: [np.int64(3), torch.tensor(4), -1]],
    ids=["random", "replacement", "weighted", "subset", "distributed", "list", "generator", "no-ints"])
def test_samplers(shared_daemon, sampler):
    with opened(shared_daemon, Squares(20), batch_size=4, sampler=sampler()) as loader:
        assert_same_batches(list(loader), torchs(Squares(20), batch_size=4, sampler=sampler()))


def test_without_a_generator_the_order_is_torchs_after_the_same_manual_seed(shared_daemon):
    orders = []
    with opened(shared_daemon, Squares(20), batch_size=4, shuffle=True) as loader:
        theirs = data.DataLoader(Squares(20), batch_size=4, shuffle=True)
        for give in (lambda: list(loader), lambda: list(theirs)):
            torch.manual_seed(12)
            orders.append([give(), give()])
            orders[-1].append(torch.rand(3))  # and so is everything that is drawn later
    assert same(*orders)


def test_a_dataset_of_keys_and_a_sampler_of_lists(shared_daemon):
    words = {"one": torch.tensor(1), "two": torch.tensor(2), "three": torch.tensor(3)}
    options = {"batch_size": 2, "sampler": list(words)}
    with opened(shared_daemon, words, **options) as loader:
        assert same(list(loader), list(data.DataLoader(words, **options)))
    table = torch.arange(12).view(6, 2)
    options = {"batch_size": None, "sampler": data.BatchSampler(range(6), 4, False)}
    with opened(shared_daemon, table, **options) as loader:
        assert same(list(loader), list(data.DataLoader(table, **options)))


def test_large_batches_of_small_items_of_any_kind_fit_into_the_daemons_memory(shared_daemon):
    options = {"batch_size": 4096, "collate_fn": as_list}  # 1 GiB a batch if each had the room that rows have at first
    with opened(shared_daemon, Squares(9000), **options) as loader:
        assert_same_batches(list(loader), torchs(Squares(9000), **options))


@pytest.mark.parametrize("size", [1, 2])
def test_shapes_that_change_from_batch_to_batch(shared_daemon, size):
    dataset = Growing([length for length in (3, 3, 5, 2, 2, 900_000, 8, 1) for _ in range(size)])
    with opened(shared_daemon, dataset, batch_size=size) as loader:
        for epoch in range(2):
            assert_same_batches(list(loader), torchs(dataset, epoch, batch_size=size))
        assert loader.stats()["rows"] == "opaque"


def test_shapes_that_differ_within_a_batch_are_the_error_that_torch_raises_and_the_next_batch_comes(shared_daemon):
    dataset = Growing([3, 3, 3, 4, 5, 5])
    with opened(shared_daemon, dataset, batch_size=2) as loader:
        iterator = iter(loader)
        assert next(iterator).shape == (2, 3)
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
            next(iterator)
        assert next(iterator).shape == (2, 5)
        with pytest.raises(StopIteration):
            next(iterator)


def test_an_item_larger_than_max_item_bytes_names_index_size_and_limit(shared_daemon):
    with opened(shared_daemon, Growing([3, 4, 100_000]), batch_size=1, max_item_bytes=300_000) as loader:
        iterator = iter(loader)
        assert [len(next(iterator)[0]) for _ in range(2)] == [3, 4]
        with pytest.raises(ValueError, match=r"item 2 takes 8\d{5} bytes.*max_item_bytes=300000"):
            next(iterator)


@pytest.mark.parametrize("options", [{"order": "ready"}, {"in_order": False}], ids=str)
@pytest.mark.parametrize("collate", [None, as_list], ids=["fixed", "opaque"])
def test_ready_order_gives_each_item_once(shared_daemon, options, collate):
    with opened(shared_daemon, Squares(50), batch_size=8, shuffle=True, collate_fn=collate, **options) as loader:
        for _ in range(2):
            batches = list(loader)
            ids = [int(i) for batch in batches
                   for i in (batch[1] if collate is None else (item[1] for item in batch[1:]))]
            assert sorted(ids) == list(range(50)) and len(batches) == len(loader) == 7


def test_an_epoch_that_is_left_early_and_begun_again(shared_daemon):
    with opened(shared_daemon, Noisy(40), batch_size=4) as loader:
        for epoch in range(4):
            for number, batch in enumerate(loader):
                if number == epoch:
                    break
            assert same(batch, torchs(Noisy(40), epoch, batch_size=4)[epoch])
        assert_same_batches(list(loader), torchs(Noisy(40), 4, batch_size=4))


def test_two_loaders_at_once_and_a_batch_that_is_kept(shared_daemon):
    with opened(shared_daemon, Noisy(40), batch_size=4) as one, opened(shared_daemon, Squares(40), batch_size=4) as two:
        kept = [batch for pair in zip(one, two, strict=True) for batch in pair]
        assert_same_batches(kept[0::2], torchs(Noisy(40), batch_size=4))
        assert_same_batches(kept[1::2], torchs(Squares(40), batch_size=4))


def test_a_batch_may_be_written_to_and_is_no_copy(shared_daemon):
    with opened(shared_daemon, Squares(40), batch_size=8) as loader:
        iterator = iter(loader)
        values, _ = next(iterator)
        assert loader.stats()["held"] == 1
        values.add_(1)
        assert_same_batches(list(iterator), torchs(Squares(40), batch_size=8)[1:])
        assert values[3].tolist() == [10.0] * 3
        del values, _
