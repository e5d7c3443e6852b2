"""A crew's streams: one after the other, opened with rows as they are known to be, and ended.

Epochs of every kind of data set call it; `end` is also the crew's thread's. Errors are speedyloader's. The
last stream that has ended stays connected until the next one is there, for its connection keeps a private
daemon, and the daemon's crew.
"""

import dataclasses
import json
import os
import secrets
import sys
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import BudgetError
from ..reconnection import Search, milliseconds
from . import guest
from .batches import Batches
from .crew import Crew
from .fit import Fit
from .hints import Hints


@dataclass
class Options:
    """What a loader was told, as its epochs need it."""

    name: str  # of the data set
    batch_size: int | None  # of the batches that are made here; None: the sampler gives batches
    drop_last: bool
    order: str  # "strict", "ready"
    errors: str
    timeout: float
    slots: int
    most: int | None  # max_item_bytes
    socket: str | None
    reconnect: float | bool | None = None


@dataclass
class Shared:
    """What the epochs of a loader have in common."""

    options: Options
    crew: Crew
    crew_number: int
    fit: Fit
    hints: Hints
    batches: Batches
    search: Search
    streams: int = 0  # opened so far
    ended: _core.Stream | None = None  # the last one: its connection keeps daemon and guests until the next

    def open(self, about: guest.Rows, width: int, index: Any, hints: Any = None,
             timeout: float = 0) -> tuple[guest.Rows, _core.Stream]:
        """A stream of these items, in batches of `width`, and what the guests have been told of it: `about`,
        with the stream's number and what its rows are like. timeout: of an item; 0: none."""
        self.fit.see_batches(width)
        while True:
            self.streams += 1
            about = dataclasses.replace(about, number=self.streams, structure=self.fit.structure,
                                        capacity=self.fit.capacity)
            self.crew.tell(about)
            try:
                stream = _core.Stream(
                    json.dumps(self._spec(about, width, len(index), timeout)), socket=self.options.socket,
                    program=os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python",
                    slots=self.options.slots, items=(index, hints),
                    reconnect_ms=milliseconds(False))  # guests must be called to another daemon: Search
                break
            except BudgetError:
                if not self.fit.shrink():
                    raise
        self.crew.attach()
        self.search.opened()
        if self.ended is not None:
            self.ended.close()
        return about, stream

    def _spec(self, about: guest.Rows, width: int, count: int, timeout: float) -> dict[str, Any]:
        options = self.options
        errors: dict[str, Any] = {"policy": options.errors}
        if timeout:
            errors["timeout_s"] = timeout
        collate = {} if self.fit.structure is not None or not self.fit.collated else {
            "collate": {"capacity": self.fit.collated}}
        return collate | {
            "dataset": {"kind": "items", "count": count, "name": options.name, "epoch": about.epoch,
                        "crew": f"{self.crew_number:016x}"},
            "rows": self.fit.to_spec(), "batch": {"size": width, "last": "keep"},
            "order": {"shuffle": False, "seed": about.number, "policy": options.order},
            "errors": errors, "epochs": 1}

    def looked_at(self) -> tuple[int, list[dict[str, Any]]]:
        """Streams that were opened, and guests that died."""
        return self.streams, list(self.crew.lost)

    def end(self, stream: _core.Stream) -> None:
        """Ends a stream, once. Any thread."""
        if stream.closed:
            return
        stream.finish()
        before, self.ended = self.ended, stream
        if before is not None and before is not stream:
            before.close()

    def close(self) -> None:
        """Ends the guests, and the last connection."""
        self.crew.close()
        if self.ended is not None:
            self.ended.close()


def begin(only: int | None, setup: guest.Setup, context: Any, options: Options, fit: Fit, hints: Hints,
          batches: Batches) -> Shared:
    """Begins a crew: all guests, or (only) the one of a shard."""
    number = secrets.randbits(64)
    crew = Crew(dataclasses.replace(setup, crew=number, only=only), context)
    return Shared(options, crew, number, fit, hints, batches, Search(options.reconnect))
