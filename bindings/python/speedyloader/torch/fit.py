"""What the rows of a loader's streams are like, as far as its items have shown.

Fixed rows if every leaf of every item has one dtype and shape, and torch's default_collate makes the batches;
opaque rows with a capacity otherwise, and room for what guests collate of a batch's. The iteration calls it; no
errors.
"""

from typing import Any

from . import rows

LEAST_CAPACITY = 256 * 1024  # unless max_item_bytes says less
_LEAST_OF_BATCHES = 64 * 1024  # the text of an exception fits
_PAGE = 4096


class Fit:
    """Nothing is known at first. `most`: what the user allows an item to take, or None; `native`: whether
    batches are those of default_collate; `collates`: whether opaque rows are collated."""

    def __init__(self, most: int | None, native: bool, collates: bool) -> None:
        self.structure: rows.Structure | None = None  # of fixed rows
        self.capacity = 0  # of opaque ones
        self.collated = 0  # of what becomes of a batch of them; 0: nothing does
        self._most = most
        self._native = native
        self._collates = collates
        self._width = 0
        self._needed_collated = 0
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

    def see_shards(self) -> None:
        """Settles it for batches that guests make of shards: opaque rows, of which nothing is known yet."""
        if self._most is not None:
            self._most = max(self._most, _LEAST_OF_BATCHES)
        self._needed = _LEAST_OF_BATCHES
        self._set(0)

    def widen(self, needed: int) -> None:
        """Opaque rows from now on, in which an item of so many bytes fits, and somewhat larger ones."""
        self.structure = None
        self._needed = max(self._needed, needed)
        self._set(max(2 * self.capacity, needed + needed // 2))

    def widen_shards(self, needed: int) -> None:
        """Rows of a shard in which a batch of so many bytes fits. Little more: batches are large, those of a shard are
        mostly alike, and none has to be made again for another stream."""
        if needed > self.capacity:
            self._needed = max(self._needed, needed)
            self._set(needed + needed // 8)

    def see_batches(self, width: int) -> None:
        """Room for batches of so many rows: twice what the items take, which padding may need."""
        if self._collates and self.structure is None and width > self._width:
            self._width = width
            self._set_collated(max(2 * width * self._needed, self.collated))

    def widen_collated(self, needed: int) -> None:
        """Room for a collated batch of so many bytes, and for somewhat larger ones."""
        self._needed_collated = max(self._needed_collated, needed)
        self._set_collated(max(2 * self.collated, needed + needed // 2))

    def shrink(self) -> bool:
        """Less, for want of memory, if need be less than LEAST_CAPACITY; False where everything so far needs what
        there is."""
        if self.structure is not None:
            return False
        before = self.capacity, self.collated
        if self.collated:
            self._set_collated(max(self.collated // 2, self._needed_collated))
        if self._most is None:
            self._set(max(self.capacity // 2, self._needed), least=1)
        return (self.capacity, self.collated) != before

    def _set_collated(self, capacity: int) -> None:
        self.collated = -(-max(capacity, _LEAST_OF_BATCHES) // _PAGE) * _PAGE

    def _set(self, capacity: int, least: int = LEAST_CAPACITY) -> None:
        wanted = max(capacity, least) if self._most is None else self._most
        self.capacity = -(-wanted // _PAGE) * _PAGE

    def to_spec(self) -> list[dict[str, Any]]:
        """The spec's `rows`."""
        if self.structure is not None:
            return rows.to_spec(self.structure)
        return [{"name": "item", "dtype": "bytes", "capacity": self.capacity}]
