"""`DataLoader`: torch's, with guest workers instead of workers of its own.

One iteration at a time; any thread. Belongs to the process that made it: in a forked child it raises
ForkedError. What the data set raises comes out where its batch would have come.
"""

import functools
import importlib
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ..errors import ClosedError, Error, ForkedError, UnsupportedError
from ..reconnection import milliseconds
from . import arguments, guest, order, positions, seeding, streams
from .batches import Batches
from .crew import find_context
from .epoch import Epoch
from .fit import Fit
from .hints import Hints
from .iteration import Iteration
from .order import samplers
from .shards import Shards, Turns
from .streams import Options, Shared

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")

_T = TypeVar("_T", covariant=True)


class DataLoader(arguments.Settled, Generic[_T]):
    """Batches of a data set, as torch.utils.data.DataLoader gives them.

        from speedyloader.torch import DataLoader

        loader = DataLoader(dataset, batch_size=64, shuffle=True)
        for epoch in range(90):
            for images, labels in loader:
                train(images, labels)

    The data set runs in guest workers: processes of this job that the host's daemon tells which item is next, so
    that costly items begin early and batches come in order all the same. Batches of tensors, arrays and numbers
    lie in shared memory and are not copied.

    dataset: a map-style one, or an IterableDataset that is sharded by get_worker_info(), as torch wants it: each
        guest iterates over a shard and makes batches of it, which come in turns.
    batch_size, shuffle, sampler, batch_sampler, collate_fn, drop_last, generator, worker_init_fn,
    multiprocessing_context: as in torch. batch_size=None gives each item as it is.
    num_workers: guest workers; 0: as many as this process may use cores, or one for an IterableDataset.
    pin_memory: give copies in pinned memory, where there is an accelerator.
    timeout: seconds that one item may take; 0: any. prefetch_factor: batches that may lie ready.
    persistent_workers: guest workers stay over epochs; False is refused.
    in_order: False is order="ready", but where a batch_sampler says what belongs together.

    order: "strict" (default): the sampler's; "ready": whatever is finished, each item once an epoch.
    cost_hint: what items cost, relative to each other: a callable of the index, or an array. Default: the sizes
        of the files in dataset.paths or dataset.samples, where there are such; costs are learned anyway.
    errors: "fail" (default): an item's exception is raised in place of its batch, and the next batch may be asked
        for; "refill": another item takes its place; "placeholder": its batch is shorter. report() names it.
    seed, reseed: before each item random, NumPy and torch are seeded by (seed, epoch, index), so that it is the
        same in any worker (`seed_item` does it), and before a collate_fn by (seed, epoch, number of the batch).
        seed=None: drawn from generator, as in torch. reseed=False leaves them alone.
    max_item_bytes: the most that an item may take where batches are not of fixed shape, else a ValueError;
        None: what the items need.
    socket: the daemon's; default as of `speedyloader.Loader`: a private one is started where there is none.
    reconnect: as of `speedyloader.Loader`; the guests go on with the next daemon. An epoch of an IterableDataset
        ends with its daemon, for its iterators cannot be asked again.
    """

    # self: of Any, unless somebody says what batches are; nobody can tell from a data set and a collate_fn.
    def __init__(self: "DataLoader[Any]", dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
                 collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Callable[[int], Any] | None = None,
                 multiprocessing_context: Any = None, generator: Any = None, *, prefetch_factor: int | None = None,
                 persistent_workers: bool | None = None, in_order: bool = True, order: str | None = None,
                 cost_hint: Any = None, errors: str = "fail", seed: int | None = None, reseed: bool = True,
                 max_item_bytes: int | None = None, socket: "str | os.PathLike[str] | None" = None,
                 reconnect: float | bool | None = None, **others: Any) -> None:
        given = locals()
        arguments.refuse_unknown(others)
        self._iterable = arguments.is_iterable(dataset)
        if self._iterable:
            arguments.check_iterable(given)
        arguments.check_numbers(given)
        arguments.check_batches(given)
        self.dataset = dataset
        self.batch_size = None if batch_sampler is not None else batch_size
        self.num_workers = num_workers or (1 if self._iterable else arguments.cores())
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = True
        self.in_order = in_order
        self._own_batches = batch_sampler is None
        self.sampler, self.batch_sampler = samplers(dataset, self._iterable, given)
        default: Any = data.default_convert if self.batch_sampler is None else data.default_collate
        self.collate_fn = default if collate_fn is None else collate_fn
        self._context = find_context(multiprocessing_context)
        self._seed, self._reseed = seed, reseed
        if order is None:
            order = "strict" if in_order or self._iterable or not self._own_batches else "ready"
        self._options = Options(
            name=type(dataset).__name__, batch_size=(batch_size or 1) if self._own_batches else None,
            drop_last=drop_last, order=order, errors=errors, timeout=timeout,
            slots=arguments.slots(prefetch_factor, self._iterable), most=max_item_bytes,
            socket=None if socket is None else os.fspath(socket), reconnect=reconnect)
        single = self.batch_sampler is None
        self._fit = Fit(max_item_bytes, native=self.collate_fn is data.default_collate and not self._iterable,
                        collates=not single and not self._iterable)
        if self._iterable:
            self._fit.see_shards()
        self._hints = Hints(dataset, cost_hint)
        self._batches = Batches(self.collate_fn, single=single, pin=pin_memory)
        milliseconds(reconnect)  # is it allowed?
        self._pid = os.getpid()
        self._closed = False
        self._shared: Shared | Shards | None = None  # from the first iteration on
        self._epoch: weakref.ref[Epoch | Turns] | None = None  # that is being iterated over
        self._promised: int | None = None  # items of an IterableDataset, as somebody was told by len()
        self._number = 0  # of the epoch that comes next
        self._named = False  # by set_epoch
        self._begun: list[str | None] = []  # the generators' states at the begin of the epoch
        self._resume: dict[str, Any] | None = None
        self._reports: list[dict[str, Any]] = []  # of the epoch's streams
        self._is_settled = True

    # ---- iteration ----

    def __len__(self) -> int:
        """Batches an epoch; of an IterableDataset what its own length says."""
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        self._promised = items = len(self.dataset)
        if self.batch_size is None:
            return items
        return items // self.batch_size if self.drop_last else -(-items // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        self._check()
        self._end_epoch()
        resume, self._resume = self._resume, None
        generators, skip = self._generators(), 0
        if resume is not None:
            skip, self._number, self._seed = resume["batches"], resume["epoch"], resume["seed"]
        if resume is not None:
            with positions.restored(generators, resume["generators"]):
                return Iteration(self, self._begin(generators, skip, resume))
        return Iteration(self, self._begin(generators, skip, None))

    def _begin(self, generators: list[Any], skip: int, resume: dict[str, Any] | None) -> Epoch | Turns:
        self._begun = [positions.state_of(one) for one in generators]
        number, self._number = self._number, self._number + 1
        self._reports = []
        epoch: Epoch | Turns
        if self._iterable:
            base = drawn = self._draw()
            if self._seed is not None:
                base = seeding.shard_base(self._seed, number)
            shared: Any = self._share(drawn if self._seed is None else self._seed)
            epoch = Turns(shared, number, base, resume, self._named, self._reports)
        else:
            options = self._options
            sampler = self.sampler if options.batch_size is not None else self.batch_sampler
            drawing = order.Drawing(sampler, options.batch_size, options.drop_last)
            drawn = self._draw()
            if self._seed is None:
                self._seed = drawn
            shared = self._share(self._seed)
            epoch = Epoch(shared, drawing, number, self._seed, skip, self._reports)
        self._epoch = weakref.ref(epoch)
        return epoch

    def _draw(self) -> int:
        """As torch's loader draws the seed of its workers, and when: orders after it are torch's too."""
        return int(torch.empty((), dtype=torch.int64).random_(generator=self.generator).item())

    def _share(self, seed: int) -> Shared | Shards:
        if self._shared is None:
            setup = guest.Setup(self.dataset, self.worker_init_fn, self.num_workers, 0, self._options.socket, seed,
                                self._reseed, self._pid, self.collate_fn, self.batch_sampler is None, self.batch_size,
                                self.drop_last)
            begin = functools.partial(streams.begin, setup=setup, context=self._context, options=self._options,
                                      fit=self._fit, hints=self._hints, batches=self._batches)
            self._shared = Shards(self.num_workers, self._batches, begin) if self._iterable else begin(None)
            weakref.finalize(self, self._shared.close)
        return self._shared

    def _next(self, epoch: Epoch | Turns) -> Any:
        self._check()
        if epoch.over:
            raise StopIteration
        if epoch.left:
            raise Error("this iteration is over: the loader has begun another one", "SL_E_INVALID_ARGUMENT")
        batch = epoch.next()
        arguments.warn_of_length(self.dataset, self._promised, epoch.taken)
        return batch

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError("this loader belongs to the parent process: make a loader in the child, after the "
                              "fork", "SL_E_FORKED")
        if self._closed:
            raise ClosedError("the loader is closed")

    def _end_epoch(self) -> None:
        epoch = None if self._epoch is None else self._epoch()
        self._epoch = None
        if epoch is not None:
            epoch.leave()

    # ---- position ----

    def _generators(self) -> list[Any]:
        return order.generators(self.sampler, None if self._own_batches else self.batch_sampler,
                                generator=self.generator)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is that of this epoch, for the seeds of its items and for samplers, or an
        IterableDataset (in each guest), that have a set_epoch."""
        self._number, self._named = epoch, True
        order.set_epoch(epoch, self.sampler, None if self._own_batches else self.batch_sampler)

    def _identity(self) -> dict[str, Any]:
        if self._iterable:
            return {"batch_size": self.batch_size, "items": None, "workers": self.num_workers}
        size = len(self.dataset) if hasattr(self.dataset, "__len__") else None
        return {"batch_size": self.batch_size, "items": size}

    def state_dict(self) -> dict[str, Any]:
        """The position: epoch, batches that were given, seed, and the random generators of the order as they
        were at the epoch's begin. UnsupportedError in the middle of an epoch of order="ready", whose batches
        nobody planned."""
        if self._resume is not None:
            return dict(self._resume)
        epoch = None if self._epoch is None else self._epoch()
        state = {"version": positions.VERSION, "epoch": self._number, "seed": self._seed, "named": self._named}
        if epoch is None or epoch.over:  # the next one begins as its generators will be then
            begun = [None if one is None else positions.state_of(one) for one in self._generators()]
            return state | positions.begin(self._identity()) | {"generators": begun} | self._identity()
        if self._options.order == "ready" and epoch.taken:
            raise UnsupportedError("there is no position in the middle of an epoch of order='ready'",
                                   "SL_E_UNSUPPORTED")
        return (state | {"epoch": epoch.number, "generators": self._begun} | epoch.position() | self._identity())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration gives the rest of the epoch of that position. SpecError if it belongs to another
        batch size, number of items, or kind of sampler; of an IterableDataset also number of guest workers."""
        positions.check(state, self._identity(), len(self._generators()))
        self._check()
        self._end_epoch()
        self.set_epoch(state["epoch"])
        self._named = state.get("named", True)
        self._resume = dict(state)

    # ---- looking ----

    def stats(self) -> dict[str, Any]:
        """Counters of the stream at hand, as `Loader.stats` has them, and of the loader: `rows` ("fixed",
        "opaque" or None), `capacity` of an opaque row, `streams` opened, `pickled` batches, guests `lost`."""
        epoch = None if self._epoch is None else self._epoch()
        stream = None if epoch is None else epoch.stream
        made = {} if stream is None or stream.closed else stream.stats()
        kind = "fixed" if self._fit.structure is not None else "opaque" if self._fit.known else None
        streams_opened, lost = self._looked_at()
        return made | {"rows": kind, "capacity": self._fit.capacity, "pickled": self._batches.pickled,
                       "streams": streams_opened, "lost": len(lost)}

    def report(self) -> dict[str, Any]:
        """The accounts of the last epoch's streams, with every item that failed, and the guests that died."""
        epoch = None if self._epoch is None else self._epoch()
        still = [] if epoch is None else [stream.report() for stream in epoch.streams()]
        return {"streams": self._reports + still,
                "guests": {"workers": self.num_workers, "lost": self._looked_at()[1]}}

    def _looked_at(self) -> tuple[int, list[dict[str, Any]]]:
        return (0, []) if self._shared is None else self._shared.looked_at()

    # ---- end ----

    def close(self) -> None:
        """Ends the stream and the guest workers. Batches that are held stay valid. Happens by itself when the
        loader is let go of, and at the program's end."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        self._end_epoch()
        if self._shared is not None:
            self._shared.close()

    def __enter__(self) -> "DataLoader[_T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
