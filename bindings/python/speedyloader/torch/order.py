"""The order of an epoch: what the sampler gives, as batches, as the daemon's positions, and what is left of it.

A `Drawing` goes through a sampler once; it gives a `Part` at a time, so that an endless sampler is no matter.
Positions of a part are rows of its batches: where these are of several sizes, each is filled up to the largest
with rows that nobody makes. One thread at a time; what a sampler raises comes out.
"""

import importlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

numpy: Any = importlib.import_module("numpy")
data: Any = importlib.import_module("torch.utils.data")

NOBODY = 2**64 - 1  # the index of a row that nobody makes
_MOST = 2**20  # rows that a part has at most; about 9 bytes of the daemon's memory each


@dataclass
class Positions:
    """A part as a stream has it."""

    width: int  # rows of a batch
    index: Any  # uint64: the item of each position, or NOBODY
    keys: list[Any] | None  # what the sampler gave, where that is no plain index: the items count these


class Part:
    """Some batches of an epoch, in order. `keys`: what the sampler gave; `sizes`: of each batch."""

    def __init__(self, keys: list[Any], sizes: list[int]) -> None:
        self.keys = keys
        self.sizes = sizes
        self._begins = numpy.concatenate(([0], numpy.cumsum(sizes, dtype=numpy.int64)))

    def __len__(self) -> int:
        return len(self.sizes)

    def after(self, batches: int) -> "Part":
        """What is left when so many have been taken."""
        return Part(self.keys[self._begins[batches]:], self.sizes[batches:])

    def without(self, positions: Any, batch_size: int, drop_last: bool) -> "Part":
        """What is left when these positions (of a part of full batches) have been taken, in any order."""
        left = numpy.ones(len(self.keys), bool)
        left[positions] = False
        keys = list(itertools.compress(self.keys, left.tolist()))
        return in_batches(keys, batch_size, drop_last)

    def key_at(self, position: int) -> Any:
        """What the sampler gave for a position."""
        batch, row = divmod(position, self._width())
        return self.keys[int(self._begins[batch]) + row]

    def batch_at(self, position: int) -> int:
        """The batch of a position."""
        return position // self._width()

    def _width(self) -> int:
        return max(*self.sizes, 1)

    def positions(self) -> Positions:
        """The part for a stream."""
        count, keys = len(self.keys), None
        width = self._width()
        plain = set(map(type, self.keys)) <= {int} and (count == 0 or 0 <= min(self.keys))
        if plain and (count == 0 or max(self.keys) < NOBODY):
            index = numpy.fromiter(self.keys, numpy.uint64, count)
        else:
            index, keys = numpy.arange(count, dtype=numpy.uint64), self.keys
        if self.sizes[-1] and all(size == width for size in self.sizes[:-1]):
            return Positions(width, index, keys)
        rows = numpy.full((len(self.sizes), width), NOBODY, numpy.uint64)
        rows[numpy.arange(width) < numpy.asarray(self.sizes)[:, None]] = index
        return Positions(width, rows.reshape(-1), keys)


def in_batches(keys: list[Any], batch_size: int, drop_last: bool) -> Part:
    """A part of batches of one size, and of an incomplete one if that is wanted."""
    whole, rest = divmod(len(keys), batch_size)
    if rest and drop_last:
        keys, rest = keys[:len(keys) - rest], 0
    return Part(keys, [batch_size] * whole + ([rest] if rest else []))


class Drawing:
    """One way through a sampler. batch_size None: it gives batches by itself."""

    def __init__(self, sampler: Iterable[Any], batch_size: int | None, drop_last: bool, most: int = _MOST) -> None:
        self._from: Iterator[Any] = iter(sampler)
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._most = most
        self._begun: list[Any] | None = None  # a batch that was drawn, for the next part

    def part(self) -> Part | None:
        """The next batches, or None at the end."""
        if self._batch_size is not None:
            rows = max(self._most // self._batch_size, 1) * self._batch_size
            keys = list(itertools.islice(self._from, rows))
            part = in_batches(keys, self._batch_size, self._drop_last)
            return part if len(part) else None
        batches: list[list[Any]] = []
        widest = 1
        for batch in itertools.chain([] if self._begun is None else [self._begun], map(list, self._from)):
            widest = max(widest, len(batch))
            if batches and widest * (len(batches) + 1) > self._most:
                self._begun = batch
                break
            batches.append(batch)
        else:
            self._begun = None
        if not batches:
            return None
        return Part(list(itertools.chain.from_iterable(batches)), [len(batch) for batch in batches])


def samplers(dataset: Any, iterable: bool, given: dict[str, Any]) -> tuple[Any, Any]:
    """A loader's sampler and batch_sampler by its arguments, as torch's loader has them."""
    sampler, batch_sampler, size = given["sampler"], given["batch_sampler"], given["batch_size"]
    if sampler is None and iterable:
        sampler = itertools.repeat(None)
    elif sampler is None:
        sampler = (data.RandomSampler(dataset, generator=given["generator"]) if given["shuffle"]
                   else data.SequentialSampler(dataset))
    if batch_sampler is None and size is not None:
        batch_sampler = data.BatchSampler(sampler, size, given["drop_last"])
    return sampler, batch_sampler


# ---- the state of what draws ----


def generators(*samplers: Any, generator: Any) -> list[Any]:
    """The random generators that an order comes from: the loader's, and those of its samplers. None is
    torch's default one."""
    found = [generator]
    waiting = [sampler for sampler in samplers if sampler is not None]
    while waiting:
        sampler = waiting.pop(0)
        if hasattr(sampler, "generator"):
            found.append(sampler.generator)
        if hasattr(sampler, "sampler"):
            waiting.append(sampler.sampler)
    return [one for place, one in enumerate(found) if not any(one is other for other in found[:place])]


def set_epoch(epoch: int, *samplers: Any) -> None:
    """Tells the samplers, and what they draw from, that have a set_epoch."""
    told: list[Any] = []
    for sampler in samplers:
        while sampler is not None and not any(sampler is one for one in told):
            told.append(sampler)
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            sampler = getattr(sampler, "sampler", None)
