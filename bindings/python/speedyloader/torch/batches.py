"""What a batch of the ring becomes: tensors as default_collate makes them, or what a guest has collated.

Without a copy: both are views of shared memory. Whoever iterates calls it; errors are those of classes that cannot
be unpickled here.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _core
from . import codec, guest, rows
from .iterating import Larger, Raised

numpy: Any = importlib.import_module("numpy")
torch: Any = importlib.import_module("torch")


@dataclass(frozen=True)
class Unreadable:
    """In place of a batch: why it could not be unpickled here."""

    error: Exception


@dataclass
class Made:
    """A batch that was taken: how many rows are somebody's, their positions, what a guest says in its place, and
    what makes the rest of it."""

    rows: int
    positions: Any
    said: Raised | Larger | None
    finish: Callable[[], Any]


class Batches:
    """Makes batches. `single`: they are items; `pin`: whether into pinned memory."""

    def __init__(self, collate: Callable[[Any], Any], single: bool, pin: bool) -> None:
        self.pickled = 0  # collated batches, or single items, of which something had to be pickled
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
        if about.structure is not None:
            return Made(count, positions, None, lambda: self.pinned(self._tensors(got, taken, about.structure)))
        if count == 0:  # no guest is asked to collate nothing
            return Made(count, positions, None, lambda: self.pinned(self._collate([])))
        batch = self.opaque(got) if not self.are_collated(about) else self._decoded(
            torch.from_dlpack(got.tensor("collated")).numpy(), got.tensor("collated_bytes"))
        return Made(count, positions, batch if isinstance(batch, (Raised, Larger)) else None,
                    lambda: self.pinned(batch))

    def are_collated(self, about: guest.Rows) -> bool:
        """Whether guests collate the batches of a stream."""
        return about.structure is None and not self._single

    def opaque(self, got: _core.Batch, empty: Any = None) -> Any:
        """What its first opaque row holds; `empty` for a row without a byte."""
        return self._decoded(torch.from_dlpack(got.tensor("item")).numpy()[0], got.tensor("item_bytes"), empty)

    def pinned(self, batch: Any) -> Any:
        """The batch, as it is or in pinned memory. Only now what is wrong with one is raised: it has been taken."""
        if isinstance(batch, Unreadable):
            raise batch.error
        return batch if self._pin is None else self._pin(batch)

    def _decoded(self, row: Any, lengths: Any, empty: Any = None) -> Any:
        length = int(numpy.asarray(lengths)[0])
        if length == 0:
            return empty
        view = memoryview(row)[:length]
        self.pickled += codec.was_pickled(view)
        try:
            return codec.decode(view)
        except Exception as error:
            return Unreadable(error)

    def _tensors(self, got: _core.Batch, taken: Any, structure: Any) -> Any:
        names = (f"leaf{number}" for number, _ in enumerate(rows.leaves(structure)))
        return rows.rebuild(structure, (torch.from_dlpack(got.tensor(name))[taken] for name in names))


def _pinning() -> Callable[[Any], Any] | None:
    if not torch.accelerator.is_available():
        importlib.import_module("warnings").warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
            "used.", stacklevel=4)
        return None
    pin: Callable[[Any], Any] = importlib.import_module("torch.utils.data._utils.pin_memory").pin_memory
    return pin
