"""One way through an IterableDataset: a shard in each guest, and their batches in turns, as torch's loader has them.

Each shard is a crew of one guest and streams of its own, an item of which is a batch. Whoever iterates calls it;
`heard` is the crews' threads'. What the data set raises comes out at its batch, and the next call goes on; with a
guest that has died, or a daemon, the epoch ends, for an iterator cannot be asked again.
"""

import contextlib
import importlib
import weakref
from collections.abc import Callable
from typing import Any

from .. import _core
from ..errors import ClosedError, Error, SampleError
from . import failures, guest
from .batches import Batches
from .iterating import NAMELESS, Larger, Raised
from .streams import Shared

numpy: Any = importlib.import_module("numpy")

_COUNT = 2**14  # positions of a shard's first stream; one that uses them up gets another, of more
_MOST_COUNT = 2**20
_NOTICED_S = 5.0  # in which a guest's death is
_ENDED = object()


class Shards:
    """The guests of a loader over its epochs. `make`: a shard's crew."""

    def __init__(self, workers: int, batches: Batches, make: Callable[[int], Shared]) -> None:
        self.batches = batches
        self.begun = 0  # epochs
        self.lost: list[dict[str, Any]] = []  # guests that died, of crews that are no more
        self._make = make
        self._each: list[Shared] = []
        try:
            for number in range(workers):
                self._each.append(make(number))
        except BaseException:
            self.close()
            raise

    def whole(self) -> list[Shared]:
        """All of them; for those that have failed there are new ones."""
        for number, shared in enumerate(self._each):
            if shared.crew.failure is not None:
                self.lost += shared.crew.lost
                shared.close()
                self._each[number] = self._make(number)
        return list(self._each)

    def looked_at(self) -> tuple[int, list[dict[str, Any]]]:
        """Streams that were opened, and guests that died."""
        lost = [one for shared in self._each for one in shared.crew.lost]
        return sum(shared.streams for shared in self._each), self.lost + lost

    def close(self) -> None:
        """Ends the guests."""
        for shared in self._each:
            shared.close()


class _Shard:
    """One shard in one epoch. `given`: batches that were taken before."""

    def __init__(self, shared: Shared, number: int, about: guest.Rows, given: int,
                 reports: list[dict[str, Any]]) -> None:
        self.number = number
        self.given = given
        self.ended = False
        self.stream: _core.Stream | None = None
        self._shared = shared
        self._about = about
        self._reports = reports
        self._count = _COUNT
        self._passes = given > 0  # its first batch takes as long as all that are passed by
        self._timed_out = False
        shared.crew.listener = weakref.WeakMethod(self.heard)

    def open(self) -> None:
        """A stream from the first batch on that was not given."""
        if self.stream is not None or self.ended:
            return
        count, timeout = (1, 0.0) if self._passes else (self._count, self._shared.options.timeout)
        # Without a history: to begin a batch early is to make all before it first, and to wait for that.
        index = numpy.arange(self.given, self.given + count, dtype=numpy.uint64) + numpy.uint64(NAMELESS)
        _, self.stream = self._shared.open(self._about, 1, index, timeout=timeout)
        if self._shared.crew.failure is not None:
            self.end()  # the thread saw none to end

    def next(self) -> Any:
        """A batch, or Raised, or _ENDED. An exception: there is nothing to go on with."""
        while True:
            self.open()
            stream = self.stream
            assert stream is not None
            try:
                got = stream.next(-1, 1)
            except ClosedError as error:
                raise self._closed() from error
            except SampleError as error:
                self._shared.crew.failed.wait(_NOTICED_S)  # the daemon may know before the thread
                raise self._failed(error.kind, str(error)) from error
            if type(got) is not _core.Batch:
                self._used_up()
                continue
            batch = self._shared.batches.opaque(got, _ENDED)
            if type(batch) is Larger:
                self._finish()
                self._shared.fit.widen_shards(batch.needed)
                continue
            if batch is _ENDED:
                self.ended = True
                self._finish()
            else:
                self.given += 1
            return batch

    def end(self) -> None:
        """Ends it where it is. Any thread."""
        stream = self.stream
        if stream is not None:
            self._shared.end(stream)

    def _used_up(self) -> None:
        if not self._passes:
            self._count = min(16 * self._count, _MOST_COUNT)
        self._passes = False
        self._finish()

    def _finish(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None and not stream.closed:
            with contextlib.suppress(Error):  # the daemon, or the guest, has gone meanwhile
                self._reports.append(stream.report())
            self._shared.end(stream)

    def _closed(self) -> BaseException:
        if self._timed_out:
            return self._failed("timeout", "")
        return self._shared.crew.failure or ClosedError("the loader was closed, or has begun another epoch, by "
                                                        "another thread")

    def _failed(self, kind: str, text: str) -> RuntimeError:
        batch = f"batch {self.given} of shard {self.number}"
        if kind == "timeout":
            return RuntimeError(f"DataLoader timed out after {self._shared.options.timeout} seconds: {batch}; its "
                                "guest worker was killed, and the epoch ends here")
        return RuntimeError(f"{batch}: {kind}: {text}")

    def heard(self, _: object) -> None:
        """The guest has died, which is how a batch that takes too long ends too. The crew's thread."""
        stream = self.stream
        if stream is None:
            return
        with contextlib.suppress(Error):
            self._timed_out = any(failure["kind"] == "timeout" for failure in stream.report()["failures"])
        self.end()


class Turns:
    """Batches of an epoch, from each shard in turn. `base`: of the seeds, as torch draws it; `position`: of a saved
    state; `named`: whether the data sets are told the epoch's number; `reports` gets those of streams that end."""

    def __init__(self, shards: Shards, number: int, base: int, position: dict[str, Any] | None, named: bool,
                 reports: list[dict[str, Any]]) -> None:
        self.number = number
        self.over = False  # nothing is left
        self.left = False  # before its end
        self._broken = False
        self._turn = 0 if position is None else position["turn"]
        self._batches = shards.batches
        self._shards: list[_Shard] = []
        shards.begun += 1
        for place, shared in enumerate(shards.whole()):
            first = 0 if position is None else position["shards"][place]
            about = guest.Rows(0, number, base, most=shared.options.most,
                               going=guest.Going(shards.begun, first, named))
            self._shards.append(_Shard(shared, place, about, first, reports))

    def next(self) -> Any:
        """The next batch. StopIteration at the end, and behind an error that ended it."""
        if self._broken or self.over:
            raise StopIteration
        try:
            for shard in self._shards:
                shard.open()
            batch = _ENDED
            while batch is _ENDED and not self.over:
                shard = self._shards[self._turn]
                if not shard.ended:
                    batch = shard.next()
                self._turn = (self._turn + 1) % len(self._shards)
                self.over = all(shard.ended for shard in self._shards)
        except Exception:
            self._broken = True
            self._end()
            raise
        if batch is _ENDED:
            raise StopIteration
        if type(batch) is Raised:
            raise failures.to_exception(batch.text, f"batch {shard.given - 1} of shard {shard.number}")
        return self._batches.pinned(batch)

    def leave(self) -> None:
        """Ends it where it is."""
        self.left = True
        self._end()

    def _end(self) -> None:
        for shard in self._shards:
            shard.end()

    @property
    def taken(self) -> int:
        """Batches that have been given, of the whole epoch."""
        return sum(shard.given for shard in self._shards)

    @property
    def stream(self) -> _core.Stream | None:
        """That of the shard whose turn it is."""
        return self._shards[self._turn].stream

    def streams(self) -> list[_core.Stream]:
        """All that are open."""
        each = [shard.stream for shard in self._shards]
        return [stream for stream in each if stream is not None and not stream.closed]

    def position(self) -> dict[str, Any]:
        """For a state."""
        return {"batches": self.taken, "shards": [shard.given for shard in self._shards], "turn": self._turn}
