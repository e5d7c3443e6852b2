"""Fixed rows: what is rebuilt from the fields is what torch's default_collate makes of the items."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from guest_items import Odd, Pair, Record, makers, same  # noqa: E402
from speedyloader.torch import rows  # noqa: E402

NAMES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "uint8": torch.uint8,
         "int64": torch.int64, "uint64": torch.uint64, "int32": torch.int32}


def batch_of(items, structure):
    """What guests, assembler and client make of the items, in this process."""
    tensors = [torch.zeros(len(items), *row["shape"], dtype=NAMES[row["dtype"]]) for row in rows.to_spec(structure)]
    for place, item in enumerate(items):
        fields = [memoryview(tensor[place].reshape(-1).view(torch.uint8).numpy()) for tensor in tensors]
        rows.write(item, structure, fields)
    return rows.rebuild(structure, iter(tensors))


@given(makers(), st.integers(1, 4))
@settings(deadline=None)
def test_a_batch_is_what_default_collate_makes_of_its_items(make, count):
    items = [make(number) for number in range(count)]
    structure = rows.describe(items[0])
    assume(rows.is_fixed(structure))
    assert all(rows.describe(item) == structure for item in items)
    assert same(batch_of(items, structure), torch.utils.data.default_collate(items))


@given(makers())
@settings(deadline=None)
def test_items_of_tensors_arrays_and_numbers_are_fixed(make):
    structure = rows.describe(make(0))
    assert structure is not None
    assert rows.is_fixed(structure) == (len(list(rows.leaves(structure))) <= rows.MOST_FIELDS)


@pytest.mark.parametrize("item", [
    "text", b"bytes", None, {"a": "text"}, [None], (), {}, [], Record("n", 1), Odd(1), 2**63, 1j, torch.empty(0, 3),
    np.array(["a"]), np.array([None]), np.zeros(2, ">f4"), np.datetime64("2020"), {(1, 2): 3}, {None: 3},
    torch.zeros(2, requires_grad=True), torch.eye(2).to_sparse(), torch.nn.Parameter(torch.zeros(2)), np.str_("a"),
    np.zeros(2, [("a", "f4")]), [1] * 17], ids=repr)
def test_an_item_that_is_not_fixed_is_told(item):
    assert not rows.is_fixed(rows.describe(item))


@pytest.mark.parametrize(("one", "other"), [
    (torch.zeros(2), torch.zeros(3)), (torch.zeros(2), torch.zeros(2).double()), (torch.zeros(2), np.zeros(2, "f4")),
    (1, 1.0), (1, True), (np.float32(1), 1.0), ([1, 2], (1, 2)), ([1, 2], [1, 2, 3]), ({"a": 1}, {"b": 1}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (Pair(1, 2), (1, 2)), (1, "1"), ([1], 1)], ids=range(13))
def test_another_dtype_shape_class_or_key_is_another_structure(one, other):
    assert rows.describe(one) != rows.describe(other)
