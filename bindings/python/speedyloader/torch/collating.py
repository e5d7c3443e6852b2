"""What a guest worker makes of a batch's rows: the user's collate_fn on its items, written as one payload.

The guest calls it, one thread. What goes wrong is a payload too, `Raised` or `Larger` in place of the batch: it
reaches the client in its place of the order, and no stream ends for an exception. Nothing is raised here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from . import codec, failures
from .iterating import Larger, Raised


def collate(function: Callable[[Any], Any], rows: Sequence[memoryview], into: memoryview) -> int:
    """Collates the items of these rows: the bytes that were written."""
    try:
        # Copies: a collate_fn may change its items, or keep them for the next batch, as in torch's workers.
        batch = function([codec.decode(memoryview(bytearray(row))) for row in rows])
        needed = codec.encode(batch, into)
    except Exception as error:
        return codec.encode(Raised(failures.to_text(error, __file__)), into)
    return needed if needed <= into.nbytes else codec.encode(Larger(needed), into)
