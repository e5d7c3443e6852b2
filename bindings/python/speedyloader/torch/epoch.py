"""One way through a data set: streams of items, one after the other, and what they give as torch's batches.

Mostly it is one stream. Another takes over what is left where an item does not fit the rows of the one before,
after an item's exception, and at the end of a part of a very long order. Whoever iterates calls it; `heard` is
the crew's thread's. Errors are those of the data set, of collate_fn, and speedyloader's.
"""

import contextlib
import importlib
import weakref
from typing import Any

from .. import _core
from ..errors import ClosedError, DisconnectedError, Error, NoDaemonError, SampleError
from . import failures, guest
from .crew import Misfit
from .iterating import Larger
from .order import NOBODY, Drawing, Part
from .streams import Shared

numpy: Any = importlib.import_module("numpy")

_TRIES = 100  # items that are tried, where failures are allowed, until one shows what items are like
_NOTHING = object()


def _is_over() -> ClosedError:
    return ClosedError("the loader was closed, or has begun another epoch, by another thread")


class Epoch:
    """Batches of an epoch from the `skip`-th on. `reports` gets those of the streams that end."""

    def __init__(self, shared: Shared, drawing: Drawing, number: int, seed: int, skip: int,
                 reports: list[dict[str, Any]]) -> None:
        self.number = number
        self.taken = skip  # batches that have been given, of the whole epoch
        self.over: bool  # nothing is left
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
        self.over = self._part is None
        shared.crew.listener = weakref.WeakMethod(self.heard)

    def next(self) -> Any:
        """The next batch. StopIteration at the end."""
        search = self._shared.search
        while not self.over:
            was_open = self.stream is not None
            if self.left:
                raise _is_over()
            try:
                if self.stream is None:
                    self._open()
                    was_open = True
                given = self._take()
            except (DisconnectedError, NoDaemonError) as error:
                self.stream = None
                search.again(error, was_open)  # then a stream for what is left is opened elsewhere
                if self._part is not None and not len(self._left()):
                    self._next_part()  # all of it was given; only its end was not told
                continue
            if given is not _NOTHING:
                search.gave()
                return given
        raise StopIteration

    def leave(self) -> None:
        """Ends it where it is."""
        self.left = True
        if self.stream is not None:
            self._shared.end(self.stream)

    def streams(self) -> list[_core.Stream]:
        """All that are open."""
        return [] if self.stream is None or self.stream.closed else [self.stream]

    def position(self) -> dict[str, Any]:
        """For a state."""
        return {"batches": self.taken}

    # ---- streams ----

    def _open(self) -> None:
        part, options, crew = self._left(), self._shared.options, self._shared.crew
        positions = part.positions()
        hints = self._shared.hints.of(positions.index, positions.keys, NOBODY)
        if not self._shared.fit.known:
            self._probe(part, positions)
        self._misfit, self._index = None, positions.index
        about = guest.Rows(0, self.number, self._seed, most=options.most, keys=positions.keys, before=self.taken)
        self._about, self.stream = self._shared.open(about, positions.width, positions.index, hints,
                                                     options.timeout)
        if self._misfit is not None or crew.failure is not None:
            self._shared.end(self.stream)  # the thread saw none to end

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
            raise failures.to_exception(probed.raised, f"item {key!r}")
        raise RuntimeError(f"{probed.died}: item {key!r}")

    def _pass_by(self, position: int | None) -> None:
        """Goes on behind an item that failed, or (None) the batch that is due."""
        part = self._part
        assert part is not None
        if self._shared.options.order == "ready":
            self._ready.append(numpy.array([position]))
        else:
            behind = (self._done if position is None else part.batch_at(position)) + 1
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
        if isinstance(made.said, Larger):
            return self._larger(made.said)
        number = self.taken
        if options.order == "ready":
            self._ready.append(made.positions)
        self._done += 1
        self.taken += 1
        if self._done == len(part) and options.order == "strict":
            self._next_part()  # now, so that a position says at once that the epoch is over
        if made.said is not None:
            raise failures.to_exception(made.said.text, f"batch {number}")
        return made.finish() if made.rows or sure else _NOTHING

    def _larger(self, said: Larger) -> Any:
        """A collated batch needs more room: another stream begins with it."""
        stream, self.stream = self.stream, None
        assert stream is not None
        self._end(stream)
        self._shared.fit.widen_collated(said.needed)
        return _NOTHING

    def _next_part(self) -> None:
        """Where the part has been given wholly: on to the next one."""
        if self._part is not None and len(self._left()):
            return
        stream, self.stream = self.stream, None
        if stream is not None and not stream.closed:
            self._end(stream)
        self._part, self._done, self._ready = self._drawing.part(), 0, []
        self.over = self._part is None

    def _end(self, stream: _core.Stream) -> None:
        with contextlib.suppress(Error):  # the daemon has gone meanwhile, or the crew's thread has closed it
            self._reports.append(stream.report())
        self._shared.end(stream)

    def _closed(self) -> Any:
        """The crew's thread has closed the stream, or somebody else has."""
        self.stream = None
        if self._shared.crew.failure is not None:
            raise self._shared.crew.failure
        if self._misfit is None or self.left:
            raise _is_over()
        self._shared.fit.widen(self._misfit.needed)
        return _NOTHING

    def _failed(self, stream: _core.Stream, error: SampleError) -> BaseException:
        part, about = self._part, self._about
        assert part is not None and about is not None
        key, text = part.key_at(error.sample_id), str(error)
        if error.kind == "raised":
            text = self._shared.crew.text_of(about.number, int(self._index[error.sample_id])) or text
        self._end(stream)
        self.stream = None
        self._pass_by(error.sample_id if self._shared.options.order == "ready" else None)
        if error.kind == "raised":
            return failures.to_exception(text, f"item {key!r}")
        if error.kind == "timeout":
            also = " or the collate_fn of its batch" if self._shared.batches.are_collated(about) else ""
            return RuntimeError(f"DataLoader timed out after {self._shared.options.timeout} seconds: item "
                                f"{key!r}{also}")
        return RuntimeError(f"item {key!r}: {error.kind}: {text}")

    # ---- the crew's thread ----

    def heard(self, what: Misfit | None) -> None:
        """An item does not fit its row, or (None) the guests cannot go on."""
        if what is not None:
            if what.stream != self._shared.streams:
                return
            self._misfit = what
        stream = self.stream
        if stream is not None:
            self._shared.end(stream)
