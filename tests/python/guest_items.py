"""Items and data sets for the tests of speedyloader.torch; guests that are spawned import this.

`items()` draws items as data sets give them, `same()` says whether two batches are equal in value, dtype and
class.
"""

import collections
import dataclasses
import os
import random
import signal
import time

import numpy as np
import torch
from hypothesis import strategies as st
from speedyloader.torch import seed_item

Pair = collections.namedtuple("Pair", ["left", "right"])

TORCH_DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16,
                torch.int32, torch.int64, torch.bool, torch.complex64]
NUMPY_DTYPES = ["float32", "float64", "float16", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32",
                "uint64", "bool", "complex64"]


@dataclasses.dataclass
class Record:
    """A user's class."""

    name: str
    data: object


class Odd:
    """A class that only pickle knows."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Odd and self.value == other.value

    __hash__ = None


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        alike = a.dtype == b.dtype and a.shape == b.shape
        return alike and torch.equal(*(one.contiguous().reshape(-1).view(torch.uint8) for one in (a, b)))
    if isinstance(a, np.ndarray):
        if a.dtype.hasobject:
            return a.dtype == b.dtype and same(a.tolist(), b.tolist())
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        return same(vars(a), vars(b))
    return a == b


SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)


def tensor(dtype, shape, number):
    """A tensor whose bytes depend on `number`."""
    generator = np.random.default_rng(number)
    if dtype is torch.bool:
        return torch.from_numpy(generator.integers(0, 2, shape).astype(bool))
    return torch.from_numpy(generator.integers(0, 100, shape)).to(dtype)


def array(dtype, shape, number):
    """An array whose bytes depend on `number`."""
    return np.random.default_rng(number).integers(0, 100, shape).astype(dtype)


@st.composite
def makers(draw, depth=2):
    """A function from a number to an item; all its items have one structure."""
    kind = draw(st.sampled_from(["tensor", "array", "int", "float", "bool", "scalar"]
                                + (["dict", "list", "tuple", "named"] if depth else [])))
    if kind == "tensor":
        dtype, shape = draw(st.sampled_from(TORCH_DTYPES)), draw(SHAPES)
        return lambda number: tensor(dtype, shape, number)
    if kind == "array":
        dtype, shape = draw(st.sampled_from(NUMPY_DTYPES)), draw(SHAPES)
        return lambda number: array(dtype, shape, number)
    if kind in ("int", "float", "bool"):
        return {"int": lambda number: 3 * number - 7, "float": lambda number: number / 3,
                "bool": lambda number: number % 3 == 0}[kind]
    if kind == "scalar":
        of = draw(st.sampled_from([np.float32, np.float64, np.int64, np.int32, np.uint8, np.float16, np.bool_]))
        return lambda number: of(number % 100)
    parts = draw(st.lists(makers(depth - 1), min_size=1, max_size=3))
    if kind == "dict":
        return lambda number: {f"key{place}": part(number + place) for place, part in enumerate(parts)}
    if kind == "list":
        return lambda number: [part(number + place) for place, part in enumerate(parts)]
    if kind == "tuple":
        return lambda number: tuple(part(number + place) for place, part in enumerate(parts))
    parts = (parts * 2)[:2]
    return lambda number: Pair(parts[0](number), parts[1](number + 1))


def anything():
    """Items of every kind, nested."""
    leaf = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
        st.builds(tensor, st.sampled_from(TORCH_DTYPES), SHAPES, st.integers(0, 99)),
        st.builds(array, st.sampled_from(NUMPY_DTYPES), SHAPES, st.integers(0, 99)),
        st.just(torch.empty(0, 3)), st.just(np.empty((2, 0))), st.just(np.array(["a", "bc"])),
        st.just(np.float32(1.5)), st.just(torch.arange(12).view(3, 4).t()), st.just(np.arange(12)[::2]),
        st.just(np.array([None, "x"], dtype=object)), st.builds(Odd, st.integers()))
    return st.recursive(leaf, lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3), st.builds(Pair, inner, inner),
        st.builds(Record, st.text(), inner)), max_leaves=8)


# ---- data sets ----


class Squares(torch.utils.data.Dataset):
    """Item i is (a tensor of three times i squared, i); what is asked of it can be changed."""

    def __init__(self, count=40):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((3,), float(index * index)), index


class Misbehaving(Squares):
    """Does something at one index: raises, exits, dies, waits, or gives what nobody expects."""

    def __init__(self, what, at=7, count=40):
        super().__init__(count)
        self.what, self.at = what, at

    def __getitem__(self, index):
        if index != self.at:
            return super().__getitem__(index)
        if self.what == "raises":
            raise LookupError(f"no such thing as {index}")
        if self.what == "exits":
            os._exit(3)
        if self.what == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.what == "waits":
            time.sleep(3600)
        return {"none": None, "large": torch.zeros(1 << 20), "text": ("text", index)}[self.what]


def fails(number):
    """A worker_init_fn."""
    raise OSError(f"guest {number} does not want to")


def dawdles(number):
    """A worker_init_fn."""
    time.sleep(1)


def dies(number):
    """A worker_init_fn."""
    os._exit(9)


class Made(Squares):
    """Items of a function."""

    def __init__(self, make, count):
        super().__init__(count)
        self.make = make

    def __getitem__(self, index):
        return self.make(index)


class Lists(torch.utils.data.Dataset):
    """A data set that is asked for lists of items only."""

    def __len__(self):
        return 10

    def __getitems__(self, indices):
        return [torch.full((2,), index) for index in indices]


class Noisy(Squares):
    """Items that are random, of every generator that is seeded."""

    def __getitem__(self, index):
        return index, random.random(), np.random.rand(2), torch.rand(3)


class Hesitant(Noisy):
    """The same, each after a delay that depends on who makes it."""

    def __getitem__(self, index):
        time.sleep((os.getpid() + index) % 4 / 1000)
        return super().__getitem__(index)


class Seeded(torch.utils.data.Dataset):
    """Another data set's items, seeded as guests do, for torch's own loader."""

    def __init__(self, dataset, seed, epoch=0):
        self.dataset, self.seed, self.epoch = dataset, seed, epoch

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        seed_item(self.seed, self.epoch, index)
        return self.dataset[index]


class Growing(Squares):
    """Item i is a vector of length `lengths[i]`."""

    def __init__(self, lengths):
        super().__init__(len(lengths))
        self.lengths = lengths

    def __getitem__(self, index):
        return torch.full((self.lengths[index],), index)


class Telling(Squares):
    """Items that tell where they were made."""

    begun = 0  # calls of begin() in this process

    @staticmethod
    def begin(number):
        info = torch.utils.data.get_worker_info()
        assert info.id == number and info.seed == torch.initial_seed()
        Telling.begun += 1

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        assert type(info.dataset) is Telling
        return index, info.id, info.num_workers, os.getpid(), Telling.begun, torch.get_num_threads()


def as_list(items):
    """A collate_fn."""
    return ["collated", *items]


def _refuse():
    raise LookupError("not in this process")


class Unloadable:
    """Can be pickled, and not be had back."""

    def __reduce__(self):
        return _refuse, ()
