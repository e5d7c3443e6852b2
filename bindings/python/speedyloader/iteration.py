"""An epoch of a `Loader`, as Python iterates it. Any thread; errors are those of the loader."""

from typing import TYPE_CHECKING

from .batch import Batch

if TYPE_CHECKING:
    from .loader import Loader


class Epoch:
    """Iterates over what is left of the epoch. Holds no batch, so that a lease is the caller's alone."""

    __slots__ = ("_finished", "_loader", "_turn", "_until")

    def __init__(self, loader: "Loader", turn: object, until: int) -> None:
        self._loader = loader
        self._turn = turn  # the loader's word for this iteration
        self._until = until  # ends of epochs since the stream was opened, this one's included
        self._finished = False

    def __iter__(self) -> "Epoch":
        return self

    def __next__(self) -> Batch:
        if self._finished:
            raise StopIteration
        batch = self._loader._next(self._turn, self._until)
        if batch is None:
            self._finished = True
            raise StopIteration
        return batch
