"""A guest worker: the process that runs `dataset[index]` and writes what comes out into shared memory.

`main` is the process's whole life. The client says over a pipe what streams there are (`Rows`), the daemon what
is to be done; a second thread reads the pipe, so that the client never waits for a long item, and ends the
process with its client. An exception of the data set fails its item; one outside of an item ends the process,
which the client notices.
"""

import contextlib
import importlib
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from .. import _core
from ..errors import DisconnectedError, Error, NoDaemonError
from . import codec, collating, failures, iterating, process, rows
from .seeding import number_of, seed_batch, seed_item, seed_worker

torch: Any = importlib.import_module("torch")

IDLE_S = 3600.0  # a wait for a job; signals and the daemon's end cut it short


@dataclass(frozen=True)
class Setup:
    """What a guest knows from its begin."""

    dataset: Any
    worker_init_fn: Any
    workers: int
    crew: int
    socket: str | None
    seed: int  # of what the guests do before their first item, and without reseed
    reseed: bool
    client: int  # pid
    collate_fn: Any = None  # of opaque rows; None: there is nothing to do
    single: bool = False  # an item is a batch, and collated as it is made
    batch_size: int | None = None  # of a shard
    drop_last: bool = False
    only: int | None = None  # of an IterableDataset: the one guest of this crew, and the number of its shard


@dataclass(frozen=True)
class Going:
    """One way through a shard."""

    number: int  # counts the loader's
    first: int  # the batch that its first stream begins with
    named: bool  # whether the data set is told the epoch


@dataclass(frozen=True)
class Rows:
    """What a guest must know of a stream. `number` counts the loader's streams; jobs name it as their seed."""

    number: int
    epoch: int
    seed: int
    structure: rows.Structure | None = None  # of fixed rows; None: opaque ones
    capacity: int = 0  # of opaque rows
    most: int | None = None  # max_item_bytes
    keys: list[Any] | None = None  # what the indices of the jobs stand for; None: for themselves
    before: int = 0  # batches of the epoch
    going: Going | None = None  # of a shard, whose batches the indices count


def _getter(dataset: Any) -> Callable[[Any], Any]:
    """How an item is asked for. torch's loader asks for whole batches where a data set has __getitems__, but an
    item has to stand alone here: it is asked for as a batch of one only where there is no other way."""
    own = getattr(type(dataset), "__getitem__", torch.utils.data.Dataset.__getitem__)
    if own is torch.utils.data.Dataset.__getitem__ and getattr(dataset, "__getitems__", None):
        return lambda key: dataset.__getitems__([key])[0]
    return lambda key: dataset[key]


class _Guest:
    def __init__(self, setup: Setup, number: int, pipe: Any) -> None:
        self._setup = setup
        self._number = number
        self._pipe = pipe
        self._said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._rows: dict[int, Rows] = {}
        self._newest = 0
        self._core: _core.Guest | None = None
        self._called = False  # asked to attach while it was attached: to the next daemon, it may be
        self._probed: tuple[int, int, Any] | None = None  # epoch, index, item
        self._shard: iterating.Shard | None = None
        self._going = 0
        self._get = _getter(setup.dataset)

    def listen(self) -> None:
        """The second thread: takes what the client says, and ends the process when the client has ended."""
        try:
            client = os.pidfd_open(self._setup.client)
        except ProcessLookupError:
            os._exit(1)
        look = select.poll()
        look.register(client, select.POLLIN)
        look.register(self._pipe.fileno(), select.POLLIN)
        while True:
            ready = {fd for fd, _ in look.poll()}
            if client in ready:
                os._exit(1)
            try:
                self._said.put(self._pipe.recv())
            except (EOFError, OSError):
                os._exit(1)

    def work(self) -> NoReturn:
        """The first thread: one job after the other."""
        while True:
            if self._core is None:
                self._hear(self._said.get())
                continue
            while not self._said.empty():
                self._hear(self._said.get())
            try:
                job = self._core.next(IDLE_S)
            except DisconnectedError:
                self._core = None
                if self._called:
                    with contextlib.suppress(Error):  # there is none: the client says when there is
                        self._attach()
                continue
            if job is not None:
                self._serve(job)

    def _hear(self, message: Any) -> None:
        if isinstance(message, Rows):
            self._rows[message.number] = message
            self._newest = message.number
            for old in [number for number in self._rows if number + 1 < self._newest]:
                del self._rows[old]
        elif message == "attach":
            if self._core is None:
                with contextlib.suppress(DisconnectedError, NoDaemonError):  # the client says when there is one
                    self._attach()
            else:
                self._called = True
        else:
            self._probe(*message)

    def _attach(self) -> None:
        self._called = False
        self._core = _core.Guest(self._setup.socket, self._setup.crew,
                                 self._setup.workers if self._setup.only is None else 1)

    def _probe(self, about: Rows, index: int, asked: int) -> None:
        try:
            item = self._make(about, index)
            structure, size = rows.describe(item), codec.size_of(item)
        except Exception as error:
            self._pipe.send(("raised", asked, failures.to_text(error, __file__)))
            return
        self._probed = about.epoch, index, item
        self._pipe.send(("probed", asked, structure, size))

    def _make(self, about: Rows, index: int) -> Any:
        key = index if about.keys is None else about.keys[index]
        if self._setup.reseed:
            seed_item(about.seed, about.epoch, number_of(key, index))
        item = self._get(key)
        return self._setup.collate_fn(item) if self._setup.single else item

    def _item(self, about: Rows, index: int) -> Any:
        probed, self._probed = self._probed, None
        if probed is None:
            return self._make(about, index)
        if probed[:2] == (about.epoch, index):
            return probed[2]
        self._probed = probed
        return self._make(about, index)

    def _serve(self, job: _core.GuestJob) -> None:
        while self._newest < job.seed:  # its stream's rows are on their way
            self._hear(self._said.get())
        about = self._rows.get(job.seed)
        if about is None:
            job.failed("its stream has gone")
            return
        if about.going is not None and about.number < self._newest:
            job.done(iterating.END)  # nobody looks at it, and no batch may get lost in it
            return
        if about.going is not None:
            shard, number = self._going_on(about, about.going), job.index - iterating.NAMELESS
            job.done(shard.write(about.number, number, job.fields[0], about.most))
            return
        if job.collate:
            if self._setup.reseed:
                seed_batch(about.seed, about.epoch, about.before + job.index)
            job.done(collating.collate(self._setup.collate_fn, job.rows, job.fields[0]))
            return
        try:
            needed = self._write(about, job)
        except Exception as error:
            self._fail(about, job, failures.to_text(error, __file__))
            return
        if needed is None:
            return
        if about.most is not None and needed > about.most:
            self._fail(about, job, f"builtins:ValueError\nValueError: item {job.index} takes {needed} bytes, more "
                                   f"than max_item_bytes={about.most}: give a larger one, or leave it out")
            return
        # The client opens another stream for what is left, with rows that fit.
        self._pipe.send(("misfit", about.number, needed))
        while self._newest == about.number:
            self._hear(self._said.get())
        job.failed("it did not fit its row")

    def _going_on(self, about: Rows, going: Going) -> iterating.Shard:
        setup = self._setup
        if self._shard is None or self._going != going.number:
            self._shard = None  # its iterator ends before the next one begins
            if setup.reseed:
                seed = seed_worker(about.seed, self._number)
                process.introduce(self._number, setup.workers, seed, setup.dataset)
            if going.named and hasattr(setup.dataset, "set_epoch"):
                setup.dataset.set_epoch(about.epoch)
            self._shard = iterating.Shard(setup.dataset, setup.batch_size, setup.drop_last, setup.collate_fn,
                                          going.first)
            self._going = going.number
        return self._shard

    def _fail(self, about: Rows, job: _core.GuestJob, text: str) -> None:
        # To the client too, and first: of the daemon's text no more is kept than fits the item's row.
        self._pipe.send(("failed", about.number, job.index, text))
        job.failed(text)

    def _write(self, about: Rows, job: _core.GuestJob) -> int | None:
        """Makes the item and hands it over; where it does not fit the stream's rows, the bytes that it needs."""
        item = self._item(about, job.index)
        if about.structure is not None:
            if rows.describe(item) != about.structure:
                return codec.size_of(item)
            rows.write(item, about.structure, job.fields)
            job.done()
            return None
        needed = codec.encode(item, job.fields[0])
        if needed > about.capacity:
            return needed
        job.done(needed)
        return None


_ending = False  # asked to end


def _end(*_: Any) -> NoReturn:
    global _ending
    _ending = True
    sys.exit(0)


def main(setup: Setup, number: int, pipe: Any) -> None:
    """The life of guest `number`."""
    process.prepare()
    signal.signal(signal.SIGTERM, _end)
    process.introduce(number, setup.workers, seed_worker(setup.seed, number), setup.dataset)
    guest = _Guest(setup, number, pipe)
    threading.Thread(target=guest.listen, daemon=True).start()
    try:
        if setup.worker_init_fn is not None:
            setup.worker_init_fn(number)
    except Exception as error:
        pipe.send(("broken", failures.to_text(error, __file__)))
        return
    pipe.send(("ready",))
    try:
        guest.work()
    except Exception:
        if not _ending:  # else it is what has become of the SystemExit, within the extension module
            raise
