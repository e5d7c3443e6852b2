"""One way through a data set: streams of items, one after the other, and what they give as torch's batches.

Mostly it is one stream. Another takes over what is left where an item does not fit the rows of the one before,
after an item's exception, and at the end of a part of a very long order. Whoever iterates calls it; `heard` is
the crew's thread's. Errors are those of the data set, of collate_fn, and speedyloader's.
"""

import contextlib
import importlib
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import BudgetError, ClosedError, DisconnectedError, Error, SampleError
from . import failures, guest
from .batches import Batches
from .crew import Crew, Misfit
from .fit import Fit
from .hints import Hints
from .order import NOBODY, Drawing, Part

numpy: Any = importlib.import_module("numpy")

_TRIES = 100  # items that are tried, where failures are allowed, until one shows what items are like
_NOTHING = object()


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


@dataclass
class Shared:
    """What the epochs of a loader have in common."""

    options: Options
    crew: Crew
    crew_number: int
    fit: Fit
    hints: Hints
    batches: Batches
    streams: int = 0  # opened so far
    ended: _core.Stream | None = None  # the last one: its connection keeps daemon and guests until the next

    def end(self, stream: _core.Stream) -> None:
        """Ends a stream. Any thread."""
        stream.finish()
        before, self.ended = self.ended, stream
        if before is not None and before is not stream:
            before.close()

    def close(self) -> None:
        """Ends the guests, and the last connection."""
        self.crew.close()
        if self.ended is not None:
            self.ended.close()


class Epoch:
    """Batches of an epoch from the `skip`-th on. `reports` gets those of the streams that end."""

    def __init__(self, shared: Shared, drawing: Drawing, number: int, seed: int, skip: int,
                 reports: list[dict[str, Any]]) -> None:
        self.number = number
        self.taken = skip  # batches that have been given, of the whole epoch
        self.over = False  # nothing is left
        self.left = False  # before its end
        self.stream: _core.Stream | None = None
        self._shared = shared
        self._drawing = drawing
        self._seed = seed
        self._reports = reports
        self._part: Part | None = drawing.part()
        while skip and self._part is not None:
            step = min(skip, len(self._part))
            self._part = self._part.after(step) if step < len(self._part) else drawing.part()
            skip -= step
        self._done = 0  # batches of the part that have been given
        self._ready: list[Any] = []  # with order="ready": the positions that have been given
        self._about: guest.Rows | None = None
        self._index: Any = None  # the items of the stream's positions
        self._misfit: Misfit | None = None
        if self._part is None:
            self.over = True

    def next(self) -> Any:
        """The next batch. StopIteration at the end."""
        while not self.over:
            if self.stream is None:
                self._open()
            given = self._take()
            if given is not _NOTHING:
                return given
        raise StopIteration

    def leave(self) -> None:
        """Ends it where it is."""
        self.left = True
        if self.stream is not None:
            self._shared.end(self.stream)

    # ---- streams ----

    def _open(self) -> None:
        part, options, crew = self._left(), self._shared.options, self._shared.crew
        positions = part.positions()
        hints = self._shared.hints.of(positions.index, positions.keys, NOBODY)
        if not self._shared.fit.known:
            self._probe(part, positions)
        while self.stream is None:
            fit = self._shared.fit
            self._shared.streams += 1
            self._misfit, self._index = None, positions.index
            self._about = guest.Rows(self._shared.streams, self.number, self._seed, fit.structure, fit.capacity,
                                     options.most, positions.keys)
            crew.tell(self._about)
            try:
                stream = _core.Stream(
                    json.dumps(self._spec(positions.width, len(positions.index), fit)), socket=options.socket,
                    program=os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python",
                    slots=options.slots, items=(positions.index, hints))
            except BudgetError:
                if not fit.shrink():
                    raise
                continue
            crew.attach()
            if self._shared.ended is not None:
                self._shared.ended.close()
            self.stream = stream
        if self._misfit is not None or crew.failure is not None:
            self._shared.end(self.stream)  # the thread saw none to end

    def _spec(self, width: int, count: int, fit: Fit) -> dict[str, Any]:
        options = self._shared.options
        errors: dict[str, Any] = {"policy": options.errors}
        if options.timeout:
            errors["timeout_s"] = options.timeout
        return {
            "dataset": {"kind": "items", "count": count, "name": options.name, "epoch": self.number,
                        "crew": f"{self._shared.crew_number:016x}"},
            "rows": fit.to_spec(), "batch": {"size": width, "last": "keep"},
            "order": {"shuffle": False, "seed": self._shared.streams, "policy": options.order},
            "errors": errors, "epochs": 1}

    def _left(self) -> Part:
        """The part without what was given, as the new part."""
        options = self._shared.options
        part = self._part
        assert part is not None
        if options.order == "ready" and options.batch_size is not None:
            if self._ready:
                given = numpy.concatenate(self._ready)
                part = part.without(given, options.batch_size, options.drop_last)
        elif self._done:
            part = part.after(self._done)
        self._part, self._done, self._ready = part, 0, []
        return part

    def _probe(self, part: Part, positions: Any) -> None:
        """Learns from the first item what items are like. Its exception is that of the first batch."""
        crew, options = self._shared.crew, self._shared.options
        about = guest.Rows(0, self.number, self._seed, keys=positions.keys)
        someone = numpy.flatnonzero(positions.index != NOBODY)
        if len(someone) == 0:
            self._shared.fit.see(None, 0)
            return
        for position in someone[:1 if options.errors == "fail" else _TRIES].tolist():
            if crew.failure is not None:
                raise crew.failure
            probed = crew.ask(about, int(positions.index[position]), options.timeout)
            if crew.failure is not None:
                raise crew.failure
            if probed.raised is None and probed.died is None:
                self._shared.fit.see(probed.structure, probed.needed)
                return
            key, failed = part.key_at(position), position
        self._pass_by(failed)
        if probed.raised is not None:
            raise failures.to_exception(probed.raised, key)
        raise RuntimeError(f"the guest worker at item {key!r} {probed.died}")

    def _pass_by(self, position: int) -> None:
        """Goes on behind an item that failed."""
        part = self._part
        assert part is not None
        if self._shared.options.order == "ready":
            self._ready.append(numpy.array([position]))
        else:
            behind = part.batch_at(position) + 1
            self.taken += behind - self._done
            self._done = behind
        self._next_part()

    # ---- batches ----

    def _take(self) -> Any:
        stream = self.stream
        assert stream is not None
        try:
            got = stream.next(-1, 1)
        except ClosedError:
            return self._closed()
        except SampleError as error:
            raise self._failed(stream, error) from error
        except DisconnectedError:
            self.stream = None  # the next call asks for what is left
            raise
        if type(got) is not _core.Batch:
            self._part = None
            self._next_part()
            return _NOTHING
        return self._given(got)

    def _given(self, got: _core.Batch) -> Any:
        options, part, about = self._shared.options, self._part, self._about
        assert part is not None and about is not None
        sure = options.errors == "fail" and options.order == "strict"
        count = part.sizes[self._done] if sure else None
        made = self._shared.batches.take(got, about, count)
        if options.order == "ready":
            self._ready.append(made.positions)
        self._done += 1
        self.taken += 1
        if self._done == len(part) and options.order == "strict":
            self._next_part()  # now, so that a position says at once that the epoch is over
        return made.finish() if made.rows or sure else _NOTHING

    def _next_part(self) -> None:
        """Where the part has been given wholly: on to the next one."""
        if self._part is not None and len(self._left()):
            return
        stream, self.stream = self.stream, None
        if stream is not None and not stream.closed:
            self._reports.append(stream.report())
            self._shared.end(stream)
        self._part, self._done, self._ready = self._drawing.part(), 0, []
        self.over = self._part is None

    def _closed(self) -> Any:
        """The crew's thread has closed the stream, or somebody else has."""
        self.stream = None
        if self._shared.crew.failure is not None:
            raise self._shared.crew.failure
        if self._misfit is None or self.left:
            raise ClosedError("the loader was closed, or has begun another epoch, by another thread")
        self._shared.fit.widen(self._misfit.needed)
        return _NOTHING

    def _failed(self, stream: _core.Stream, error: SampleError) -> BaseException:
        part, about = self._part, self._about
        assert part is not None and about is not None
        key, text = part.key_at(error.sample_id), str(error)
        with contextlib.suppress(Error):  # the daemon has gone meanwhile
            self._reports.append(stream.report())
        if error.kind == "raised":
            text = self._shared.crew.text_of(about.number, int(self._index[error.sample_id])) or text
        self._shared.end(stream)
        self.stream = None
        self._pass_by(error.sample_id)
        if error.kind == "raised":
            return failures.to_exception(text, key)
        if error.kind == "timeout":
            return RuntimeError(f"item {key!r} timed out after {self._shared.options.timeout} seconds")
        return RuntimeError(f"item {key!r}: {error.kind}: {text}")

    # ---- the crew's thread ----

    def heard(self, what: Misfit | None) -> None:
        """An item does not fit its row, or (None) the guests cannot go on."""
        about = self._about
        if what is not None:
            if about is None or what.stream != about.number:
                return
            self._misfit = what
        stream = self.stream
        if stream is not None:
            self._shared.end(stream)
