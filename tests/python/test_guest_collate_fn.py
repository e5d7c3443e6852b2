"""collate_fn in guests: batches are what it makes of the items, as in torch's workers, whatever it returns and
whatever it does, in every order, for any number of guests."""

import os
import pickle
import random
import resource
import statistics
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from guest_items import Growing, Made, Misbehaving, Odd, Pair, Record, Seeded, Squares, Unloadable, as_list  # noqa: E402
from guest_loaders import SEED, assert_same_batches, opened, torchs, walk  # noqa: E402
from speedyloader.torch import seed_batch  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def padded(items):
    return torch.nn.utils.rnn.pad_sequence(items, batch_first=True), torch.tensor([len(item) for item in items])


def everything(items):
    return {"first": items[0][0], "odd": Odd(items[0][1]), "pair": Pair(np.arange(3), [None, "text", b"bytes"]),
            "record": Record("r", {1: 2.5}), "tensors": [tensor for tensor, _ in items]}


def at_random(items):
    weight = torch.rand(1) + random.random() + np.random.rand()
    return torch.stack([tensor for tensor, _ in items]) * weight


def in_place(items):
    for tensor, _ in items:
        tensor.mul_(2)
    return torch.stack([tensor for tensor, _ in items])


class Mixing:
    """Keeps its items, and gives those that came 40 batches before."""

    def __init__(self):
        self.kept = []

    def __call__(self, items):
        self.kept.append([tensor for tensor, _ in items])
        return [tensor.tolist() for tensor in self.kept[max(len(self.kept) - 40, 0)]]


@pytest.mark.parametrize("collate", [as_list, everything, in_place, len, lambda items: None], ids=str)
@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": 3, "shuffle": True, "drop_last": True},
                                     {"batch_sampler": [[1, 2], [3], [4, 5, 6, 7, 8]]}], ids=str)
def test_batches_are_what_it_returns(shared_daemon, collate, options):
    torch.manual_seed(4)
    theirs = torchs(Squares(), collate_fn=collate, **options)
    torch.manual_seed(4)
    with opened(shared_daemon, Squares(), collate_fn=collate, **options) as loader:
        assert_same_batches(list(loader), theirs)
        assert loader.stats()["rows"] == "opaque"


def test_default_collate_of_items_that_are_not_fixed(shared_daemon):
    def make(number):
        return {"text": f"number {number}", "size": torch.full((2,), number)}

    with opened(shared_daemon, Made(make, 10), batch_size=4) as loader:
        ours = list(loader)
        assert_same_batches(ours, torchs(Made(make, 10), batch_size=4))
        assert not ours[0]["size"].is_shared()


def test_it_runs_in_guests_and_never_in_the_client(shared_daemon):
    with opened(shared_daemon, Squares(), batch_size=4, collate_fn=lambda items: os.getpid()) as loader:
        assert os.getpid() not in set(loader)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_it_goes_to_guests_however_they_begin(shared_daemon, method):
    options = {"batch_size": 4, "collate_fn": as_list, "multiprocessing_context": method}
    with opened(shared_daemon, Squares(10), **options) as loader:
        assert_same_batches(list(loader), torchs(Squares(10), batch_size=4, collate_fn=as_list))


def test_one_that_cannot_be_pickled_fails_as_torchs_does(shared_daemon):
    options = {"batch_size": 4, "collate_fn": lambda items: items, "multiprocessing_context": "spawn"}
    with pytest.raises(Exception) as theirs:
        list(data.DataLoader(Squares(), num_workers=1, **options))
    with opened(shared_daemon, Squares(), **options) as loader, pytest.raises(theirs.type) as ours:
        list(loader)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("workers", [1, 3])
def test_random_numbers_depend_on_seed_epoch_and_batch_alone(shared_daemon, workers):
    with opened(shared_daemon, Squares(), batch_size=4, collate_fn=at_random, num_workers=workers) as loader:
        for epoch in range(2):
            for number, batch in enumerate(loader):
                seed_batch(SEED, epoch, number)
                assert torch.equal(batch, at_random([Squares()[4 * number + row] for row in range(4)]))


def test_random_numbers_are_the_same_behind_a_saved_position(shared_daemon):
    with opened(shared_daemon, Squares(), batch_size=4, collate_fn=at_random) as loader:
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
        rest = list(iterator)
        loader.load_state_dict(state)
        assert_same_batches(list(loader), rest)


def test_an_item_is_collated_as_it_is_made_where_items_are_batches(shared_daemon):
    with opened(shared_daemon, Squares(5), batch_size=None, collate_fn=lambda item: (os.getpid(), item[1])) as loader:
        seen = list(loader)
        assert [index for _, index in seen] == [0, 1, 2, 3, 4] and os.getpid() not in {pid for pid, _ in seen}


def test_items_may_be_kept_for_later_batches(shared_daemon):
    options = {"batch_size": 4, "collate_fn": Mixing()}
    theirs = list(data.DataLoader(Seeded(Squares(400), SEED), num_workers=1, **options))
    with opened(shared_daemon, Squares(400), num_workers=1, **options) as loader:
        assert_same_batches(list(loader), theirs)


def test_arrays_may_be_changed_in_place(shared_daemon):
    def collate(items):
        for array in items:
            array *= 2
        return np.stack(items)

    dataset = Made(lambda number: np.full(3, number), 10)
    with opened(shared_daemon, dataset, batch_size=4, collate_fn=collate) as loader:
        assert_same_batches(list(loader), torchs(dataset, batch_size=4, collate_fn=collate))


# ---- sizes ----


def test_batches_that_are_much_larger_than_their_items(shared_daemon):
    def collate(items):
        return torch.full((1 + 100_000 * items[0][1],), items[0][1])

    options = {"batch_size": 4, "collate_fn": collate}
    with opened(shared_daemon, Squares(), **options) as loader:
        for epoch in range(2):
            assert_same_batches(list(loader), torchs(Squares(), epoch, **options))
            if epoch == 0:
                opened_first = loader.stats()["streams"]
        assert 2 < opened_first and loader.stats()["streams"] == opened_first + 1


def test_items_and_batches_that_grow_in_one_epoch(shared_daemon):
    lengths = [10 ** (1 + number // 10) for number in range(60)]
    options = {"batch_size": 4, "collate_fn": padded}
    with opened(shared_daemon, Growing(lengths), **options) as loader:
        assert_same_batches(list(loader), torchs(Growing(lengths), **options))


def test_batches_may_be_kept(shared_daemon):
    with opened(shared_daemon, Squares(200), batch_size=2, collate_fn=as_list) as loader:
        assert_same_batches(list(loader), torchs(Squares(200), batch_size=2, collate_fn=as_list))


# ---- orders and errors ----


def numbers(items):
    return sorted(number for _, number in items)


def test_in_ready_order_every_item_is_in_one_batch(shared_daemon):
    with opened(shared_daemon, Squares(50), batch_size=8, collate_fn=numbers, order="ready") as loader:
        for _ in range(2):
            batches = list(loader)
            assert [len(batch) for batch in batches] == [8] * 6 + [2]
            assert sorted(sum(batches, [])) == list(range(50))


@pytest.mark.parametrize("policy", ["refill", "placeholder"])
def test_items_that_fail_are_no_matter_of_it(shared_daemon, policy):
    options = {"batch_size": 4, "collate_fn": numbers, "errors": policy}
    with opened(shared_daemon, Misbehaving("raises"), **options) as loader:
        batches = list(loader)
    assert [len(batch) for batch in batches] == [4, 4 if policy == "refill" else 3, *[4] * 8]
    assert 7 not in sum(batches, [])


@pytest.mark.parametrize("batch_size", [1, 4])
def test_batches_of_which_nothing_is_left_are_passed_by(shared_daemon, batch_size):
    dataset = Made(lambda number: 1 // (number < 8), 20)
    options = {"batch_size": batch_size, "collate_fn": len, "errors": "placeholder"}
    with opened(shared_daemon, dataset, **options) as loader:
        assert list(loader) == [batch_size] * (8 // batch_size)


def failing(items):
    if any(number == 7 for _, number in items):
        raise ZeroDivisionError("seven")
    return numbers(items)


@pytest.mark.parametrize("errors", ["fail", "refill", "placeholder"])
def test_its_exception_is_raised_at_its_batch_and_the_others_come(shared_daemon, errors):
    with opened(shared_daemon, Squares(12), batch_size=4, collate_fn=failing, errors=errors) as loader:
        for _ in range(2):
            seen = walk(iter(loader))
            assert seen[0] == [0, 1, 2, 3] and seen[2:] == [[8, 9, 10, 11]]
            assert type(seen[1]) is ZeroDivisionError and "batch 1" in str(seen[1])
            assert "in failing" in str(seen[1]) and "collating.py" not in str(seen[1])
        assert loader.stats()["streams"] == 2


def test_its_exception_in_ready_order_loses_no_other_batch(shared_daemon):
    with opened(shared_daemon, Squares(40), batch_size=4, collate_fn=failing, order="ready") as loader:
        seen = walk(iter(loader))
        (error,) = [one for one in seen if isinstance(one, Exception)]
        assert type(error) is ZeroDivisionError
        given = sum((one for one in seen if one is not error), [])
        assert len(given) == len(set(given)) == 36 and 7 not in given


def test_what_cannot_be_sent_is_an_error_at_its_batch(shared_daemon):
    def collate(items):
        return threading.Lock() if items[0][1] == 4 else len(items)

    with opened(shared_daemon, Squares(12), batch_size=4, collate_fn=collate) as loader:
        seen = walk(iter(loader))
        assert (seen[0], seen[2]) == (4, 4)
        assert isinstance(seen[1], (TypeError, pickle.PicklingError)) and "lock" in str(seen[1])


def test_a_batch_that_cannot_be_had_back_is_raised_and_counted(shared_daemon):
    def collate(items):
        return Unloadable() if items[0][1] == 4 else numbers(items)

    with opened(shared_daemon, Squares(16), batch_size=4, collate_fn=collate) as loader:
        iterator = iter(loader)
        assert next(iterator) == [0, 1, 2, 3]
        with pytest.raises(LookupError, match="not in this process"):
            next(iterator)
        state = loader.state_dict()
        assert state["batches"] == 2 and list(iterator) == [[8, 9, 10, 11], [12, 13, 14, 15]]
        loader.load_state_dict(state)
        assert list(loader) == [[8, 9, 10, 11], [12, 13, 14, 15]]


def test_one_that_ends_its_guest_is_a_runtime_error_and_the_next_batch_comes(shared_daemon):
    def collate(items):
        if items[0][1] == 4:
            os._exit(3)
        return numbers(items)

    with opened(shared_daemon, Squares(12), batch_size=4, collate_fn=collate) as loader:
        seen = walk(iter(loader))
        assert seen[0] == [0, 1, 2, 3] and seen[2:] == [[8, 9, 10, 11]]
        assert type(seen[1]) is RuntimeError and "collated the batch" in str(seen[1])
        assert len(loader.report()["guests"]["lost"]) == 2


def test_one_that_takes_longer_than_the_timeout(shared_daemon):
    def collate(items):
        if items[0][1] == 4:
            threading.Event().wait()
        return numbers(items)

    with opened(shared_daemon, Squares(12), batch_size=4, collate_fn=collate, timeout=0.5) as loader:
        seen = walk(iter(loader))
        assert seen[0] == [0, 1, 2, 3] and seen[2:] == [[8, 9, 10, 11]]
        said = "timed out after 0.5 seconds: item 4 or the collate_fn of its batch"
        assert type(seen[1]) is RuntimeError and said in str(seen[1])


# ---- the process ----


def test_what_a_collate_fn_frees_is_there_for_later_batches(shared_daemon):
    def collate(items):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        made = torch.ones(10 << 20)
        del made
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with opened(shared_daemon, Squares(120), batch_size=4, collate_fn=collate, num_workers=1) as loader:
        faults = list(loader)
        assert faults[0] > 5000 > 100 > statistics.median(faults)
