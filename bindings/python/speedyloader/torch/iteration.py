"""What `for` goes through: an epoch of a loader.

The loader makes it. As many threads as want to, one at a time; errors are the loader's.
"""

import sys
from typing import TYPE_CHECKING, Any

from .epoch import Epoch
from .shards import Turns

if TYPE_CHECKING:
    from .loader import DataLoader


class Iteration:
    """Keeps the loader; the loader does not keep it, so that to let go of it is to leave the epoch."""

    def __init__(self, loader: "DataLoader[Any]", epoch: Epoch | Turns) -> None:
        self._loader = loader
        self._epoch = epoch

    def __iter__(self) -> "Iteration":
        return self

    def __next__(self) -> Any:
        return self._loader._next(self._epoch)

    def __len__(self) -> int:
        return len(self._loader)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._epoch.leave()
