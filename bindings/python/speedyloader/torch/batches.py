"""What a batch of the ring becomes: tensors as default_collate makes them, or items for a collate_fn.

Without a copy where the rows are fixed; items of opaque rows are views too. Whoever iterates calls it; errors
are those of collate_fn and of classes that cannot be unpickled here.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _core
from . import codec, guest, rows

numpy: Any = importlib.import_module("numpy")
torch: Any = importlib.import_module("torch")


@dataclass
class Made:
    """A batch that was taken: how many rows are somebody's, their positions, and what makes the rest of it."""

    rows: int
    positions: Any
    finish: Callable[[], Any]


class Batches:
    """Makes batches. `single`: items are given as they are; `pin`: whether into pinned memory."""

    def __init__(self, collate: Callable[[Any], Any], single: bool, pin: bool) -> None:
        self.pickled = 0  # items of which something had to be pickled
        self._collate = collate
        self._single = single
        self._pin = _pinning() if pin else None

    def take(self, got: _core.Batch, about: guest.Rows, count: int | None) -> Made:
        """count: how many rows are somebody's, the first ones; None: look at `valid`."""
        positions = None
        if count is None:
            valid = numpy.flatnonzero(numpy.asarray(got.tensor("valid")))
            count = len(valid)
            positions = numpy.asarray(got.tensor("sample_id"))[valid].astype(numpy.int64)
            taken = slice(count) if count == 0 or valid[-1] + 1 == count else torch.from_numpy(valid)
        else:
            taken = slice(count)
        if about.structure is None:
            return Made(count, positions, lambda: self._pinned(self._items(got, taken)))
        return Made(count, positions, lambda: self._pinned(self._tensors(got, taken, about.structure)))

    def _pinned(self, batch: Any) -> Any:
        return batch if self._pin is None else self._pin(batch)

    def _tensors(self, got: _core.Batch, taken: Any, structure: Any) -> Any:
        names = (f"leaf{number}" for number, _ in enumerate(rows.leaves(structure)))
        return rows.rebuild(structure, (torch.from_dlpack(got.tensor(name))[taken] for name in names))

    def _items(self, got: _core.Batch, taken: Any) -> Any:
        every = torch.from_dlpack(got.tensor("item")).numpy()
        lengths = numpy.asarray(got.tensor("item_bytes"))[taken].tolist()
        wanted = range(len(every))[taken] if isinstance(taken, slice) else taken.tolist()
        items = []
        for row, length in zip(wanted, lengths, strict=True):
            view = memoryview(every[row])[:length]
            self.pickled += codec.was_pickled(view)
            items.append(codec.decode(view))
        return self._collate(items[0] if self._single else items)


def _pinning() -> Callable[[Any], Any] | None:
    if not torch.accelerator.is_available():
        importlib.import_module("warnings").warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
            "used.", stacklevel=4)
        return None
    pin: Callable[[Any], Any] = importlib.import_module("torch.utils.data._utils.pin_memory").pin_memory
    return pin
