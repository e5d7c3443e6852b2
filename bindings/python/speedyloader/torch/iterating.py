"""A guest's shard of an IterableDataset: the batches of its iterator, in order, as rows of one stream after another.

The guest worker calls it, one thread. An iterator cannot be asked twice, so a batch is kept until it and all before
it lie in rows. What goes wrong is a row like any other, and comes out where its batch would have: no stream ends
for it. Nothing is raised here.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import codec, failures

NAMELESS = 2**40  # what batch 0 is called: no number of which the daemon remembers what it cost an epoch ago
END = 0  # bytes of the row that says that the shard has ended
_NO_MORE = object()


@dataclass(frozen=True)
class Raised:
    """In place of a batch: why it could not be made."""

    text: str


@dataclass(frozen=True)
class Larger:
    """In place of a batch: it needs a row of so many bytes, and is there for the next stream."""

    needed: int


class Shard:
    """One way through a shard. `first`: the batch that the client wants first; those before it are made and
    dropped. batch_size None: each item is a batch."""

    def __init__(self, dataset: Any, batch_size: int | None, drop_last: bool, collate: Callable[[Any], Any],
                 first: int) -> None:
        self._dataset = dataset
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._collate = collate
        self._first = first
        self._from: Iterator[Any] | None = None
        self._ended = False
        self._next = 0  # the batch that is made next
        self._kept: dict[int, Any] = {}  # batches that do not all lie in rows yet
        self._written: set[int] = set()  # of those, the ones that do
        self._stream = 0
        self._larger: int | None = None  # the first batch that did not fit: the client goes no further in this stream

    def write(self, stream: int, number: int, row: memoryview, most: int | None) -> int:
        """Writes batch `number`, or what stands for it, into a row of this stream: its bytes, or END.
        most: what a batch may take."""
        if stream != self._stream:
            self._stream, self._larger = stream, None
            self._written.clear()
        while self._next <= number and not self._ended:
            made = self._make()
            if made is _NO_MORE:
                self._ended = True
                break
            if self._next >= self._first:
                self._kept[self._next] = made
            self._next += 1
        if number >= self._next or (self._larger is not None and number > self._larger):
            return END
        needed = self._encode(number, row, most)
        if needed > row.nbytes:
            self._larger = number
            return codec.encode(Larger(needed), row)
        self._written.add(number)
        for lowest in sorted(self._kept):
            if lowest not in self._written:
                break
            del self._kept[lowest]
        return needed

    def _encode(self, number: int, row: memoryview, most: int | None) -> int:
        try:
            needed = codec.encode(self._kept[number], row)
            if most is not None and needed > most:
                raise ValueError(f"batch {number} takes {needed} bytes, more than max_item_bytes={most}: give a larger "
                                 "one, or leave it out")
        except Exception as error:
            self._kept[number] = Raised(failures.to_text(error, __file__))
            needed = codec.encode(self._kept[number], row)
        return needed

    def _make(self) -> Any:
        """The next batch, or Raised, or _NO_MORE."""
        try:
            if self._from is None:
                self._from = iter(self._dataset)
            if self._batch_size is None:
                return self._collate(next(self._from))
            items = list(itertools.islice(self._from, self._batch_size))
            self._ended = len(items) < self._batch_size
            if not items or (self._drop_last and self._ended):
                return _NO_MORE
            return self._collate(items)
        except StopIteration:  # of the iterator; of a collate_fn, torch takes it for the same
            return _NO_MORE
        except Exception as error:
            self._ended = self._from is None  # there is no iterator to go on with
            return Raised(failures.to_text(error, __file__))
