"""Orders of torch's samplers: batches as they give them, positions for the daemon, and what is left after some."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from speedyloader.torch import failures, hints, order, positions  # noqa: E402
from torch.utils import data  # noqa: E402

BATCHES = st.lists(st.lists(st.integers(0, 1000), max_size=5), min_size=1, max_size=20)


def all_of(drawing):
    """Every batch of a drawing."""
    return [batch for part in iter(drawing.part, None) for batch in batches_of(part)]


def batches_of(part):
    """What the daemon's batches of a part hold: sampler's keys of the rows that are somebody's."""
    laid = part.positions()
    rows = [laid.index[begin:begin + laid.width].tolist() for begin in range(0, len(laid.index), laid.width)]
    return [[i if laid.keys is None else laid.keys[i] for i in row if i != order.NOBODY] for row in rows]


@given(BATCHES, st.integers(1, 60))
@settings(deadline=None)
def test_batches_of_any_sizes_come_as_the_sampler_gives_them_in_parts_of_any_length(batches, most):
    assert all_of(order.Drawing(batches, None, False, most)) == batches


@given(st.integers(0, 50), st.integers(1, 8), st.booleans(), st.integers(1, 60))
@settings(deadline=None)
def test_batches_of_one_size_are_those_of_torchs_batch_sampler(count, size, drop_last, most):
    wanted = list(data.BatchSampler(range(count), size, drop_last))
    assert all_of(order.Drawing(range(count), size, drop_last, most)) == wanted


def test_an_endless_sampler_is_drawn_part_by_part():
    drawing = order.Drawing(itertools.count(), 4, False, 40)
    assert [batches_of(drawing.part())[0][0] for _ in range(3)] == [0, 40, 80]


@given(BATCHES, st.data())
@settings(deadline=None)
def test_what_is_left_is_every_later_batch(batches, choose):
    part = order.Drawing(batches, None, False).part()
    taken = choose.draw(st.integers(0, len(batches) - 1))
    assert batches_of(part.after(taken)) == batches[taken:]


@given(BATCHES)
@settings(deadline=None)
def test_a_position_is_traced_back_to_what_the_sampler_gave(batches):
    part = order.Drawing(batches, None, False).part()
    laid = part.positions()
    for number, batch in enumerate(batches):
        for row, key in enumerate(batch):
            position = number * laid.width + row
            assert part.key_at(position) == key and part.batch_at(position) == number
            assert laid.index[position] == key


@given(st.integers(1, 40), st.integers(1, 6), st.booleans(), st.data())
@settings(deadline=None)
def test_what_is_left_of_a_ready_order_is_what_was_not_given(count, size, drop_last, choose):
    part = order.in_batches(list(range(count)), size, drop_last)
    given_ = choose.draw(st.lists(st.integers(0, max(len(part.keys) - 1, 0)), unique=True, max_size=len(part.keys)))
    left = part.without(np.array(given_, int), size, drop_last)
    wanted = [key for key in part.keys if key not in given_]
    assert left.keys == (wanted[:len(wanted) // size * size] if drop_last else wanted)


@pytest.mark.parametrize("keys", [[-1, 2], ["a", "b"], [[1, 2], [3]], [np.int64(3)], [torch.tensor(3)], [2.5], [True],
                                  [2**64 - 1], [2**70]], ids=repr)
def test_what_is_no_plain_index_is_counted_instead(keys):
    laid = order.in_batches(keys, 2, False).positions()
    assert laid.keys is keys and laid.index.tolist() == list(range(len(keys)))


def test_the_generators_of_an_order_are_those_of_the_loader_and_of_its_samplers():
    one, two = torch.Generator(), torch.Generator()
    random = data.RandomSampler(range(5), generator=one)
    assert order.generators(random, generator=None) == [None, one]
    assert order.generators(data.BatchSampler(random, 2, False), None, generator=one) == [one]
    assert order.generators([3, 4], data.SubsetRandomSampler([1], generator=two), generator=one) == [one, two]


def test_set_epoch_reaches_a_sampler_within_a_batch_sampler():
    inner = data.DistributedSampler(range(10), num_replicas=2, rank=0)
    order.set_epoch(7, inner, data.BatchSampler(inner, 2, False), [1, 2])
    assert inner.epoch == 7


def test_states_bring_back_what_was_drawn_and_leave_torchs_default_generator_alone():
    own = torch.Generator().manual_seed(1)
    generators = [None, own]
    states = [positions.state_of(one) for one in generators]
    wanted = torch.rand(3).tolist(), torch.rand(3, generator=own).tolist()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with positions.restored(generators, states):
        assert (torch.rand(3).tolist(), torch.rand(3, generator=own).tolist()) == wanted
    assert torch.equal(torch.get_rng_state(), before)


# ---- hints ----


class Files:
    def __init__(self, paths):
        self.paths = paths


def test_hints_are_the_callables_the_arrays_or_the_files_sizes(tmp_path):
    index = np.array([2, 0, order.NOBODY, 1], np.uint64)
    files = [tmp_path / name for name in "abc"]
    for size, file in zip((10, 20, 30), files, strict=True):
        file.write_bytes(b"x" * size)
    for of in (hints.Hints(None, lambda i: 10 * (i + 1)), hints.Hints(None, [10, 20, 30]),
               hints.Hints(Files(files), None)):
        assert of.of(index, None, order.NOBODY).tolist() == [30, 10, 1, 20]
    assert hints.Hints(Files(["/nowhere"] * 3), None).of(index, None, order.NOBODY) is None
    assert hints.Hints([1, 2, 3], None).of(index, None, order.NOBODY) is None
    assert hints.Hints(None, len).of(np.array([0, 1], np.uint64), ["a", "bc"], order.NOBODY).tolist() == [1, 2]


@pytest.mark.parametrize("hint", [0, -1, float("nan"), float("inf")])
def test_a_hint_that_is_no_positive_number_names_its_item(hint):
    with pytest.raises(ValueError, match=r"item 7\b"):
        hints.Hints(None, lambda i: hint if i == 7 else 1).of(np.array([3, 7], np.uint64), None, order.NOBODY)


def test_an_array_of_too_few_hints_is_refused():
    with pytest.raises(ValueError, match="3 numbers"):
        hints.Hints(None, [1, 2, 3]).of(np.array([3], np.uint64), None, order.NOBODY)


# ---- exceptions ----


class Picky(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def raised(error):
    try:
        raise error
    except Exception as caught:
        return failures.to_text(caught, "another file")


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("no"), OSError(2, "no"), TypeError("no")])
def test_an_exception_comes_back_as_its_class_with_traceback_and_item(error):
    made = failures.to_exception(raised(error), "item 7")
    assert type(made) is type(error)
    assert "item 7" in str(made) and "Traceback" in str(made) and "raise error" in str(made)
    assert "\\n" not in str(made)


def test_an_exception_that_cannot_be_made_of_text_is_a_runtime_error_that_names_it():
    made = failures.to_exception(raised(Picky(1, 2)), "item 7")
    assert type(made) is RuntimeError and "Picky" in str(made)


def test_a_very_long_traceback_is_cut_in_its_middle():
    text = raised(ValueError("x" * 100_000 + "the end"))
    assert len(text) < 16_000 and text.startswith("builtins:ValueError\n") and text.rstrip().endswith("the end")
