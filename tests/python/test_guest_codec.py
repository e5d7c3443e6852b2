"""Items as bytes of a row: every item comes back as it was, payloads beside the pickle, and sizes are told."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings

torch = pytest.importorskip("torch")

from guest_items import Odd, Record, anything, same  # noqa: E402
from speedyloader.torch import codec  # noqa: E402


def through_row(item):
    row = memoryview(bytearray(codec.size_of(item)))
    assert codec.encode(item, row) == row.nbytes
    return codec.decode(row), row


@given(anything())
@settings(deadline=None)
def test_an_item_comes_back_as_it_was(item):
    back, _ = through_row(item)
    assert same(back, item)


@given(anything())
@settings(deadline=None)
def test_a_row_that_is_too_small_is_said_with_the_bytes_that_it_would_take(item):
    size = codec.size_of(item)
    for room in {16, size // 2, size - 1} - set(range(16)):
        if room < size:
            row = memoryview(bytearray(room + 8))[:room]
            assert codec.encode(item, row) == size
    assert codec.encode(item, memoryview(bytearray(size + 1000))) == size


@pytest.mark.parametrize("payload", [torch.zeros(10_000), np.zeros(10_000), np.zeros((100, 100)).T,
                                     torch.zeros(100, 100)[:, ::2], np.zeros(20_000)[::-2]], ids=range(5))
def test_payloads_lie_beside_the_pickle_and_on_a_border(payload):
    back, row = through_row({"x": payload})
    assert int.from_bytes(row[:8], "little") < 500
    base = np.frombuffer(row, np.uint8).ctypes.data
    address = back["x"].data_ptr() if isinstance(payload, torch.Tensor) else back["x"].ctypes.data
    assert 0 <= address - base < row.nbytes and (address - base) % 64 == 0


def test_what_is_decoded_can_be_written_to_where_the_row_can():
    back, _ = through_row([torch.zeros(5), np.zeros(5)])
    back[0].add_(1)
    back[1][:] = 2
    assert back[0].tolist() == [1.0] * 5


def test_bytes_are_copied_once_whatever_their_size():
    back, row = through_row((b"x" * 1_000_000, "y" * 1_000_000))
    assert back == (b"x" * 1_000_000, "y" * 1_000_000)
    assert row.nbytes < 2_001_000


@pytest.mark.parametrize(("item", "counted"), [
    ({"a": [1, 2.5, None, b"x", "y", True]}, False), (torch.zeros(3), False), (np.zeros(3), False),
    (Record("n", torch.zeros(3)), False), (np.float32(3), False), (Odd(3), True), ({"a": [Odd(3)]}, True),
    (np.array([None]), True), (torch.zeros(3, requires_grad=True), True)], ids=range(9))
def test_what_only_pickle_knows_is_counted(item, counted):
    _, row = through_row(item)
    assert codec.was_pickled(row) == counted


def test_one_tensor_that_comes_twice_in_an_item_stays_one():
    one = torch.arange(5)
    back, _ = through_row([one, one])
    assert back[0] is back[1]


def test_what_cannot_be_pickled_raises_as_pickle_does():
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        codec.size_of({"f": lambda: 0})
