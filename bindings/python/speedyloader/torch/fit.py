"""What the rows of a loader's streams are like, as far as its items have shown.

Fixed rows if every leaf of every item has one dtype and shape, and torch's default_collate makes the batches;
opaque rows with a capacity otherwise. The iteration calls it; no errors.
"""

from typing import Any

from . import rows

LEAST_CAPACITY = 256 * 1024
_PAGE = 4096


class Fit:
    """Nothing is known at first. `most`: what the user allows an item to take, or None; `native`: whether
    batches are those of default_collate."""

    def __init__(self, most: int | None, native: bool) -> None:
        self.structure: rows.Structure | None = None  # of fixed rows
        self.capacity = 0  # of opaque ones
        self._most = most
        self._native = native
        self._needed = 0  # by the largest item that has shown itself

    @property
    def known(self) -> bool:
        """Whether an item has been seen."""
        return self.structure is not None or self.capacity > 0

    def see(self, structure: rows.Structure | None, needed: int) -> None:
        """Settles it by the first item."""
        self._needed = needed
        if self._native and rows.is_fixed(structure):
            self.structure = structure
        else:
            self._set(4 * needed)

    def widen(self, needed: int) -> None:
        """Opaque rows from now on, in which an item of so many bytes fits, and somewhat larger ones."""
        self.structure = None
        self._needed = max(self._needed, needed)
        self._set(max(2 * self.capacity, needed + needed // 2))

    def shrink(self) -> bool:
        """Less, for want of memory; False where every item so far needs what there is."""
        if self.structure is not None or self._most is not None:
            return False
        before = self.capacity
        self._set(max(before // 2, self._needed))
        return self.capacity < before

    def _set(self, capacity: int) -> None:
        wanted = max(capacity, LEAST_CAPACITY) if self._most is None else self._most
        self.capacity = -(-wanted // _PAGE) * _PAGE

    def to_spec(self) -> list[dict[str, Any]]:
        """The spec's `rows`."""
        if self.structure is not None:
            return rows.to_spec(self.structure)
        return [{"name": "item", "dtype": "bytes", "capacity": self.capacity}]
