"""IterableDataset under speedyloader.torch.DataLoader: the batches of torch's loader with as many workers, in its
order and with its random numbers, whatever the shards are like."""

import itertools
import json
import os

import pytest
import speedyloader as sl

torch = pytest.importorskip("torch")

from guest_items import as_list  # noqa: E402
from guest_loaders import assert_same_batches, opened, walk  # noqa: E402
from guest_shards import Endless, Shard, Sized, Stumbling, Told, Uneven  # noqa: E402
from speedyloader.torch import DataLoader, shards  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def torchs(dataset, workers, epochs=1, **options):
    """The batches of torch's own loader, of one epoch after the other."""
    loader = data.DataLoader(dataset, num_workers=workers, **options)
    return [list(loader) for _ in range(epochs)]


BATCHES = [{"batch_size": 4}, {"batch_size": 1}, {"batch_size": None}, {"batch_size": 4, "drop_last": True},
           {"batch_size": 5, "collate_fn": as_list}]


@pytest.mark.parametrize("lengths", [(9,), (3, 17, 0), (0, 8)], ids=str)
@pytest.mark.parametrize("options", BATCHES, ids=str)
def test_batches_are_those_of_torchs_loader_in_every_epoch(shared_daemon, lengths, options):
    torch.manual_seed(4)
    theirs = torchs(Shard(*lengths), len(lengths), epochs=2, **options)
    torch.manual_seed(4)
    with opened(shared_daemon, Shard(*lengths), num_workers=len(lengths), seed=None, **options) as loader:
        for epoch in range(2):
            assert_same_batches(list(loader), theirs[epoch])
            assert all(stream["failures"] == [] for stream in loader.report()["streams"])


def test_batches_of_spawned_guests_are_the_same(shared_daemon):
    generator = torch.Generator().manual_seed(5)
    (theirs,) = torchs(Shard(5, 9), 2, batch_size=4, generator=generator)
    options = {"batch_size": 4, "generator": generator.manual_seed(5), "multiprocessing_context": "spawn"}
    with opened(shared_daemon, Shard(5, 9), seed=None, **options) as loader:
        assert_same_batches(list(loader), theirs)


def test_a_seed_makes_epochs_that_differ_and_come_again(shared_daemon):
    runs = []
    for _ in range(2):
        with opened(shared_daemon, Shard(9, 9), batch_size=4, seed=3) as loader:
            runs.append([list(loader), list(loader)])
    assert_same_batches(runs[0][0] + runs[0][1], runs[1][0] + runs[1][1])
    assert not torch.equal(runs[0][0][0][4], runs[0][1][0][4])
    with opened(shared_daemon, Shard(9, 9), batch_size=4, seed=3) as loader:
        loader.set_epoch(1)
        assert_same_batches(list(loader), runs[0][1])


def test_without_workers_there_is_one_that_has_everything(shared_daemon):
    with opened(shared_daemon, Sized(10), batch_size=4, num_workers=0) as loader:
        assert loader.num_workers == 1
        assert_same_batches(list(loader), torchs(Sized(10), 0, batch_size=4)[0])


def test_batches_are_made_in_guests(shared_daemon):
    def collate(items):
        return os.getpid(), len(items)

    with opened(shared_daemon, Shard(5, 5), batch_size=4, collate_fn=collate) as loader:
        seen = list(loader)
        assert [size for _, size in seen] == [4, 4, 1, 1]
        assert len({pid for pid, _ in seen} | {os.getpid()}) == 3


def test_guests_stay_and_iterate_anew_and_are_told_the_epoch_where_it_was_named(shared_daemon):
    with opened(shared_daemon, Told(2, 2), batch_size=None) as loader:
        epochs = [list(loader), list(loader)]
        loader.set_epoch(7)
        epochs += [list(loader), list(loader)]
    told = [{(item[2], item[3]) for item in epoch} for epoch in epochs]
    assert told == [{(None, 1)}, {(None, 2)}, {(7, 3)}, {(8, 4)}]
    seeds = [{item[4] for item in epoch} for epoch in epochs]
    assert all(max(one) - min(one) == 1 for one in seeds) and len(set.union(*seeds)) == 8


# ---- long shards, and large batches ----


def test_a_shard_with_more_batches_than_a_stream_has_positions(shared_daemon, monkeypatch):
    monkeypatch.setattr(shards, "_COUNT", 3)
    with opened(shared_daemon, Shard(70, 5), batch_size=1, seed=None) as loader:
        torch.manual_seed(4)
        ours = list(loader)
        assert loader.stats()["streams"] == 5
        torch.manual_seed(4)
        assert_same_batches(ours, torchs(Shard(70, 5), 2, batch_size=1)[0])


def test_a_batch_that_was_slow_is_not_made_early_for_all_before_it_would_be_made_first(shared_daemon):
    dataset = Uneven(200, slow=150)
    with opened(shared_daemon, dataset, num_workers=1, batch_size=None) as loader:
        for _ in range(3):
            ahead = [dataset.made.value - number for number in loader]
            assert max(ahead) < 80


def test_endless_data_sets_whose_batches_grow_and_are_kept(shared_daemon):
    with opened(shared_daemon, Endless(), batch_size=None) as loader:
        for _ in range(2):
            kept = list(itertools.islice(loader, 200))
            assert [len(batch) for batch in kept] == [1 + number * 1000 for number in range(200)]
            assert all((batch == number).all() for number, batch in enumerate(kept))


def test_max_item_bytes_bounds_a_batch(shared_daemon):
    dataset = Stumbling("large", 3, 6)
    options = {"batch_size": None, "num_workers": 1, "max_item_bytes": 1000}
    with opened(shared_daemon, dataset, **options) as loader:
        seen = walk(iter(loader))
    assert type(seen[3]) is ValueError and "max_item_bytes=1000" in str(seen[3])
    assert [batch[1] for place, batch in enumerate(seen) if place != 3] == [0, 1, 2, 4, 5]


# ---- positions ----


@pytest.mark.parametrize("seed", [None, 3])
def test_a_state_brings_back_the_rest_of_the_epoch_and_the_next_one(shared_daemon, seed):
    options = {"batch_size": 2, "num_workers": 3, "seed": seed}
    epochs, states = [[], []], []
    with opened(shared_daemon, Told(3, 9, 0), generator=torch.Generator().manual_seed(5), **options) as loader:
        for epoch, given in enumerate(epochs):
            loader.set_epoch(epoch)
            for batch in loader:
                given.append(batch)
                states.append((epoch, len(given), json.dumps(loader.state_dict())))
    with opened(shared_daemon, Told(3, 9, 0), generator=torch.Generator(), **options) as loader:
        for epoch, taken, state in states:
            loader.load_state_dict(json.loads(state))
            assert loader.state_dict() == json.loads(state)
            rest = list(loader)
            assert [batch[:3] + batch[4:] for batch in map(plain, rest)] == \
                [batch[:3] + batch[4:] for batch in map(plain, epochs[epoch][taken:])]
            assert loader.state_dict()["epoch"] == epoch + 1


def plain(batch):
    return [part.tolist() for part in batch]


def test_random_numbers_go_on_behind_what_is_passed_by(shared_daemon):
    with opened(shared_daemon, Shard(9, 12), batch_size=2, seed=3) as loader:
        whole = list(loader)
        loader.set_epoch(0)
        iterator = iter(loader)
        for _ in range(5):
            next(iterator)
        state = loader.state_dict()
        assert (state["batches"], state["shards"], state["turn"]) == (5, [3, 2], 1)
    with opened(shared_daemon, Shard(9, 12), batch_size=2) as loader:
        loader.load_state_dict(state)
        assert_same_batches(list(loader), whole[5:])


@pytest.mark.parametrize(("change", "said"), [
    ({"batch_size": 5}, "batch_size"), ({"workers": 3}, "workers"), ({"shards": [1]}, "shards"),
    ({"shards": None}, "shards"), ({"turn": 2}, "turn")], ids=str)
def test_a_state_of_another_loader_is_refused_and_names_what_differs(shared_daemon, change, said):
    with opened(shared_daemon, Shard(2, 2), batch_size=4) as loader:
        with pytest.raises(sl.SpecError, match=said):
            loader.load_state_dict(loader.state_dict() | change)
        assert len(list(loader)) == 2


def test_an_epoch_may_be_left_and_the_next_one_begins_at_the_begin(shared_daemon):
    with opened(shared_daemon, Shard(40, 40), batch_size=4) as loader:
        for _ in range(3):
            for _, numbers, *_ in itertools.islice(loader, 5):
                pass
            assert numbers.tolist() == [8, 9, 10, 11]
        assert len(list(loader)) == 20


# ---- lengths ----


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": None}, {"batch_size": 4, "drop_last": True}],
                         ids=str)
def test_lengths_are_torchs(options):
    assert len(DataLoader(Sized(10), **options)) == len(data.DataLoader(Sized(10), **options))
    with pytest.raises(TypeError):
        len(DataLoader(Shard(3)))


def test_more_than_the_length_is_a_warning_as_torchs(shared_daemon):
    class Liar(Shard):
        def __len__(self):
            return 3

    with opened(shared_daemon, Liar(5), batch_size=None, num_workers=1) as loader:
        assert len(loader) == 3
        with pytest.warns(UserWarning, match="was reported to be 3"):
            list(loader)


# ---- arguments ----


@pytest.mark.parametrize("options", [
    {"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}, {"cost_hint": [1]}, {"order": "ready"},
    {"errors": "refill"}, {"errors": "placeholder"}, {"batch_size": 0}, {"batch_size": None, "drop_last": True}],
    ids=str)
def test_what_makes_no_sense_is_a_value_error_that_names_it(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        DataLoader(Shard(3), **options)


def test_the_arguments_that_torch_refuses_are_refused_in_its_words():
    for option in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        said = []
        for of in (DataLoader, data.DataLoader):
            with pytest.raises(ValueError) as caught:
                of(Shard(3), **option)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_in_order_and_prefetch_factor_are_taken(shared_daemon):
    options = {"batch_size": 2, "in_order": False, "prefetch_factor": 1, "shuffle": False}
    with opened(shared_daemon, Shard(5, 5), **options) as loader:
        assert len(list(loader)) == 6


def test_a_data_pipe_is_refused():
    with pytest.raises(TypeError, match="DataPipe"):
        DataLoader(data.datapipes.iter.IterableWrapper([1]))
