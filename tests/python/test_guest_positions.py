"""Positions of speedyloader.torch.DataLoader: a state that went through JSON brings back exactly what is left."""

import json

import pytest
import speedyloader as sl

torch = pytest.importorskip("torch")

from guest_items import Noisy, Squares, same  # noqa: E402
from guest_loaders import assert_same_batches, opened, torchs  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def options(kind):
    """A fresh loader's arguments."""
    generator = torch.Generator().manual_seed(5)
    return {"plain": {"batch_size": 4}, "shuffle": {"batch_size": 4, "shuffle": True},
            "generator": {"batch_size": 4, "shuffle": True, "generator": generator},
            "sampler": {"batch_size": 4, "sampler": data.RandomSampler(range(22), generator=generator)},
            "distributed": {"batch_size": 4, "sampler": data.DistributedSampler(range(22), 2, 1)},
            "batches": {"batch_sampler": data.BatchSampler(
                data.RandomSampler(range(22), generator=generator), 3, False)}}[kind] | {"seed": None}


KINDS = ["plain", "shuffle", "generator", "sampler", "distributed", "batches"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_brings_back_the_rest_of_the_epoch_and_the_next_one(shared_daemon, kind):
    epochs, states = [[], []], []
    with opened(shared_daemon, Noisy(22), **options(kind)) as loader:
        for epoch, given in enumerate(epochs):
            loader.set_epoch(epoch)
            for batch in loader:
                given.append(batch)
                states.append((epoch, len(given), json.dumps(loader.state_dict())))
    with opened(shared_daemon, Noisy(22), num_workers=1, **options(kind)) as loader:
        for epoch, taken, state in states:
            loader.load_state_dict(json.loads(state))
            assert loader.state_dict() == json.loads(state)
            if taken < len(epochs[epoch]):
                before = torch.get_rng_state()
                assert_same_batches(list(loader), epochs[epoch][taken:])
                assert torch.equal(torch.get_rng_state(), before)
                loader.set_epoch(epoch + 1)
            if epoch == 0 and kind != "shuffle":  # what torch's default generator will be then, nobody knows
                assert_same_batches(list(loader), epochs[1])


def test_a_state_between_epochs_begins_the_next_one(shared_daemon):
    with opened(shared_daemon, Squares(10), batch_size=4) as loader:
        list(loader)
        state = loader.state_dict()
        assert (state["epoch"], state["batches"]) == (1, 0)


@pytest.mark.parametrize(("change", "said"), [
    ({"version": 2}, "version"), ({"batch_size": 5}, "batch_size"), ({"items": 3}, "items"),
    ({"epoch": -1}, "epoch"), ({"batches": "x"}, "batches"), ({"generators": []}, "sampler")], ids=str)
def test_a_state_of_another_loader_is_refused_and_names_what_differs(shared_daemon, change, said):
    with opened(shared_daemon, Squares(10), batch_size=4) as loader:
        with pytest.raises(sl.SpecError, match=said):
            loader.load_state_dict(loader.state_dict() | change)
        assert len(list(loader)) == 3


def test_there_is_no_position_in_the_middle_of_a_ready_epoch(shared_daemon):
    with opened(shared_daemon, Squares(40), batch_size=4, order="ready") as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(sl.UnsupportedError, match="ready"):
            loader.state_dict()
        list(iterator)
        assert loader.state_dict()["epoch"] == 1


def test_set_epoch_reaches_sampler_and_seeds(shared_daemon):
    sampler, other = (data.DistributedSampler(range(20), 2, 0) for _ in range(2))
    with opened(shared_daemon, Noisy(20), batch_size=4, sampler=sampler) as loader:
        for epoch in (3, 1):
            loader.set_epoch(epoch)
            other.set_epoch(epoch)
            assert_same_batches(list(loader), torchs(Noisy(20), epoch, batch_size=4, sampler=other))


def test_a_seed_that_is_not_given_is_drawn_as_torch_draws_it(shared_daemon):
    seen = []
    for _ in range(2):
        torch.manual_seed(4)
        with opened(shared_daemon, Noisy(20), batch_size=4, seed=None) as loader:
            seen.append(list(loader))
    assert same(*seen)
    torch.manual_seed(5)
    with opened(shared_daemon, Noisy(20), batch_size=4, seed=None) as loader:
        assert not same(list(loader), seen[0])
