"""Relative cost hints of items, where somebody knows: the caller, or the data set, by the sizes of its files.

A hint tells the daemon which items begin early; a wrong one costs time, never correctness. ValueError names
the item whose hint is no positive number.
"""

import importlib
import os
import time
from typing import Any

numpy: Any = importlib.import_module("numpy")

_LOOK_S = 1.0  # for looking at files, once a loader


class Hints:
    """Hints by item index. `cost_hint`: a callable, an array, or None: the sizes of `dataset.paths`."""

    def __init__(self, dataset: Any, cost_hint: Any) -> None:
        self._given = cost_hint is not None
        self._ask = cost_hint if callable(cost_hint) else None
        self._files = None if self._given else _files(dataset)
        self._known: Any = None
        if self._given and self._ask is None:
            self._known = numpy.asarray(cost_hint, dtype=numpy.float64).reshape(-1)

    def of(self, index: Any, keys: list[Any] | None, nobody: int) -> Any:
        """float64 hints for the items of an order, or None."""
        if self._files is not None:
            self._known, self._files = _sizes(self._files), None
        if self._ask is None and self._known is None:
            return None
        hints = numpy.ones(len(index))
        rows = numpy.flatnonzero(index != nobody)
        asked = index[rows].tolist() if keys is None else [keys[i] for i in index[rows].tolist()]
        if self._ask is not None:
            hints[rows] = numpy.fromiter(map(self._ask, asked), numpy.float64, len(asked))
        else:
            try:
                hints[rows] = self._known[asked]
            except (IndexError, TypeError):
                if not self._given:
                    return None
                raise ValueError(f"cost_hint has {len(self._known)} numbers, but the sampler gives items beyond, "
                                 "or no indices: pass a callable") from None
        wrong = numpy.flatnonzero(~(numpy.isfinite(hints) & (hints > 0)))
        if len(wrong):
            if not self._given:
                return None
            place = int(numpy.searchsorted(rows, wrong[0]))
            raise ValueError(f"cost_hint of item {asked[place]!r} is {hints[wrong[0]]}, allowed: numbers above 0")
        return hints


def _files(dataset: Any) -> Any:
    """The files of a data set, as those of torchvision name them too; None where it names none."""
    for name in ("paths", "samples"):
        listed = getattr(dataset, name, None)
        if isinstance(listed, (list, tuple)) and listed:
            first = listed[0][0] if isinstance(listed[0], tuple) and listed[0] else listed[0]
            if isinstance(first, (str, os.PathLike)):
                return [entry[0] if isinstance(entry, tuple) else entry for entry in listed]
    return None


def _sizes(files: list[Any]) -> Any:
    """Bytes of each file; those that there was no time to look at count as the mean of the others."""
    sizes = numpy.zeros(len(files))
    until = time.monotonic() + _LOOK_S
    seen = 0
    for file in files:
        if time.monotonic() > until:
            break
        try:
            sizes[seen] = max(os.stat(file).st_size, 1)
        except (OSError, ValueError, TypeError):
            return None
        seen += 1
    sizes[seen:] = sizes[:seen].mean() if seen else 1
    return sizes
