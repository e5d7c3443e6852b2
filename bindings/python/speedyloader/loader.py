"""`Loader`: an open stream as Python iterates it, epoch after epoch.

Waiting, freeing and copying do not hold the GIL. One iteration at a time, from any thread; Ctrl-C ends a wait
at once. In a forked child a loader raises ForkedError; pickled to a spawned one it opens a stream of its own.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from . import _core
from .batch import Batch
from .datasets import ImageFolder, Mix
from .errors import ClosedError, Error, SpecError, StreamEnded, WaitTimeout
from .iteration import Epoch
from .reconnection import log, milliseconds, patiently
from .spec import make_spec, to_json_types, with_rank
from .transforms import Transform

_EPOCHS = 1_000_000  # "as many as you like"
_MOST_SLOTS = 2**31  # the daemon's own limit is far below, and its error says so
_LONGEST_WAIT_S = 1e9  # what `timeout` means at most: 30 years


def _text(state: dict[str, Any]) -> str:
    return json.dumps(state, separators=(",", ":"))


def _is_over() -> Error:
    return Error("this iteration is over: the loader has begun another one", "SL_E_INVALID_ARGUMENT")


class Loader:
    """Batches of a data set, decoded and augmented by the host's daemon.

        loader = sl.Loader(sl.ImageFolder("/data/train"),
                           [sl.RandomResizedCrop(224), sl.RandomHorizontalFlip(),
                            sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)], batch_size=64)
        for epoch in range(90):
            for batch in loader:
                images, labels = batch.torch("image", "label")

    dataset: `ImageFolder`, or the path of such a folder; or a `Mix` of several.
    transforms: `RandomResizedCrop`, `Resize`, `CenterCrop`, `RandomHorizontalFlip`, `Normalize`, in order. Unless
        all pictures have one size, one of them must set it.
    batch_size: rows; last: "drop", "keep" or "pad" the incomplete batch (padding has valid = 0).
    shuffle, seed: the order; a new one every epoch, the same in every run.
    order: "strict" (planned members in planned order) or "ready" (whatever is finished).
    rank, world_size: default to torch.distributed if it is initialised, else the launcher's environment.
    uneven: "pad", "drop" or "wrap" what makes the ranks even; all have the same number of batches.
    errors: "refill", "placeholder" or "fail" for samples that cannot be decoded; max_failures, max_rate bound
        the first two.
    dtype: "float32", "float16", "bfloat16", "uint8" (without Normalize); layout: "NCHW" or "NHWC".
    profile: "pillow" (the bytes of Pillow up to 12), "pillow13" (of Pillow from 13 on), "fast" (near them);
        None: those of the Pillow that is installed. explain: adds the tensors crop_box and flip.
    share: "auto" or "private": whether jobs that read the same may be served from one decoding.
    epochs: how many there are; the default is as many as you iterate over. A `for` beyond raises StreamEnded.

    slots: batches the ring holds (0: the daemon chooses). copy: give private, writable batches.
    ring_full: when you keep so many batches that one free slot is left, "copy" (default) gives the next ones
        as private copies, "error" raises RingExhausted, with what is held, once no slot is left at all.
    timeout: seconds to wait for a batch before WaitTimeout; None: as long as it takes.
    socket: the daemon's; default SPEEDYLOADER_SOCKET, else the host's, else a private one that is started.
    reconnect: where the daemon has gone, the seconds in which another one is looked for; the epoch goes on with it
        at the batch that is due, and a warning is logged. Default: 5; False: DisconnectedError, or NoDaemonError
        where a position is gone to, at once.

    Iterating goes on with the next epoch each time; an epoch that was left in the middle is not continued.
    Errors are `speedyloader.Error` and its subclasses.
    """

    def __init__(self, dataset: "ImageFolder | Mix | str | os.PathLike[str]", transforms: Iterable[Transform] = (),
                 *, batch_size: int = 64, last: str = "drop", shuffle: bool = True, seed: int = 0,
                 order: str = "strict", rank: int | None = None, world_size: int | None = None,
                 uneven: str = "pad", errors: str = "refill", max_failures: int | None = None,
                 max_rate: float | None = None, dtype: str = "float32", layout: str = "NCHW",
                 profile: str | None = None, explain: bool = False, share: str = "auto",
                 epochs: int = _EPOCHS, slots: int = 0, copy: bool = False, ring_full: str = "copy",
                 timeout: float | None = None, socket: "str | os.PathLike[str] | None" = None,
                 reconnect: float | bool | None = None) -> None:
        spec = make_spec(dataset, transforms, locals())
        self._start(spec, slots=slots, copy=copy, ring_full=ring_full, timeout=timeout, socket=socket,
                    reconnect=reconnect)

    @classmethod
    def from_spec(cls, spec: dict[str, Any], *, slots: int = 0, copy: bool = False, ring_full: str = "copy",
                  timeout: float | None = None, socket: "str | os.PathLike[str] | None" = None,
                  reconnect: float | bool | None = None) -> "Loader":
        """A loader for a spec as a dict (docs/spec.md). Without `epochs` it is open-ended; without `shard` it
        takes this process's rank."""
        loader = cls.__new__(cls)
        loader._start({"epochs": _EPOCHS, **spec}, slots=slots, copy=copy, ring_full=ring_full,
                      timeout=timeout, socket=socket, reconnect=reconnect)
        return loader

    def _start(self, spec: dict[str, Any], **options: Any) -> None:
        slots, timeout = options["slots"], options["timeout"]
        if not isinstance(slots, int) or not 0 <= slots <= _MOST_SLOTS:
            why = f"slots is {slots!r}, allowed: a whole number from 0 to {_MOST_SLOTS}"
            raise SpecError(why, "SL_E_SPEC")
        if timeout is not None and not timeout >= 0:
            raise SpecError(f"timeout is {timeout!r}, allowed: None, or seconds from 0 on", "SL_E_SPEC")
        if options["ring_full"] not in ("copy", "error"):
            raise SpecError(f"ring_full is {options['ring_full']!r}, allowed: 'copy', 'error'", "SL_E_SPEC")
        milliseconds(options["reconnect"])  # is it allowed?
        self._spec: dict[str, Any] = to_json_types(with_rank(spec))
        self._options = options
        self._closed = False
        self._moving_from: str | None = None
        self._open()

    def _open(self, state: str = "", allow_change: bool = False) -> None:
        options = self._options
        socket = options["socket"]
        self._stream = _core.Stream(
            json.dumps(self._spec), socket=None if socket is None else os.fspath(socket),
            program=os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python", state=state,
            allow_change=allow_change,
            slots=options["slots"], copy=options["copy"], ring_full_is_error=options["ring_full"] == "error",
            reconnect_ms=milliseconds(options["reconnect"]))
        self._reconnects = 0
        self._info = self._stream.info()
        self._first_state: dict[str, Any] = json.loads(self._stream.state())
        self._turn: object = None  # of the Epoch that may take batches; the Epoch itself would make a cycle
        self._place: tuple[int, int] | None = None  # (epoch, index) of the last batch since the opening
        self._left: str | None = None  # the position, while there is no stream to ask for it

    def _opened(self) -> _core.Stream:
        """The stream; where going to a position has left none, one that goes on from where the loader was."""
        self._stream.check_process()
        left = self._left
        if left is not None:
            place = self._place
            patiently(self._options["reconnect"], lambda: self._open(left))
            self._place = place  # so that an epoch left in the middle stays left
        return self._stream

    def _reopen(self, state: dict[str, Any], allow_change: bool = False) -> None:
        """Goes to a position. If that fails the loader stays where it was; where it has no position, amid an
        epoch of order="ready", at the beginning of that epoch."""
        self._stream.check_process()
        if self._closed:
            raise ClosedError("the loader is closed")
        try:
            here = _text(self.state_dict())
        except Error:
            epoch = self._first_state["epoch"] if self._place is None else self._place[0]
            here = _text(self._first_state | {"epoch": epoch, "batch": 0})
        self._turn = None
        self._moving_from = here  # for who asks amid it: a signal handler, another thread
        self._stream.close()  # first, for the daemon may have memory for one only
        try:
            patiently(self._options["reconnect"], lambda: self._open(_text(state), allow_change))
        except Exception:
            with contextlib.suppress(Error):  # the first reason is the one to tell
                self._open(here)
            raise
        finally:
            self._moving_from = None
            if self._closed:  # by another thread
                self._stream.close()
            if self._stream.closed and not self._closed:
                self._left, self._place = here, None

    # ---- iteration ----

    def __len__(self) -> int:
        """Batches an epoch, the same on every rank."""
        batches: int = self._info["batches_per_epoch"]
        return batches

    def __iter__(self) -> Iterator[Batch]:
        self._opened()
        if self._place is not None and self._place[1] + 1 < len(self):
            left = self._place
            try:
                self.reset(left[0] + 1)
            except BaseException:
                self._place = left  # the epoch stays left
                raise
        ended = 0 if self._place is None else self._place[0] + 1 - self._info["first_epoch"]
        self._turn = object()
        return Epoch(self, self._turn, ended + 1)

    def _next(self, turn: object, until: int) -> Batch | None:
        if turn is not self._turn:
            raise _is_over()
        timeout = self._options["timeout"]
        if self._stream.reconnects != self._reconnects:  # before the next batch, which an interrupt must not lose
            self._reconnected()
        got = self._stream.next(-1 if timeout is None else int(min(timeout, _LONGEST_WAIT_S) * 1000), until)
        if type(got) is _core.Batch:
            batch, place = Batch(got), (got.epoch, got.index)
            if turn is not self._turn:  # another thread went to a position meanwhile
                raise _is_over()
            if self._place is None or place > self._place:  # else another thread came with a later one
                self._place = place
            return batch
        if got == "end_of_epoch":
            return None
        if got == "end":
            epochs = self._info["epochs"]
            raise StreamEnded(f"all {epochs} epochs of the spec have been delivered: ask for more with "
                              "epochs=, or go back with reset(epoch)", "SL_END")
        raise WaitTimeout(f"no batch within {timeout} s", "SL_TIMEOUT")

    def _reconnected(self) -> None:
        self._reconnects = self._stream.reconnects
        with contextlib.suppress(ClosedError):  # by another thread
            self._info["daemon_version"] = self._stream.info()["daemon_version"]
        log.warning("%r: the daemon was lost; the epoch goes on with another one", self)

    # ---- position ----

    def reset(self, epoch: int = 0) -> None:
        """Goes to the first batch of an epoch."""
        self._reopen(self._first_state | {"epoch": epoch, "batch": 0})

    def state_dict(self) -> dict[str, Any]:
        """The position as a small dict of numbers and names: what has been given, not what was prefetched.
        Known even when the daemon has gone. UnsupportedError in the middle of an epoch of order="ready",
        whose batches nobody planned."""
        self._stream.check_process()
        left = self._moving_from or self._left
        state: dict[str, Any] = json.loads(self._stream.state() if left is None else left)
        taken = self._stream.interrupted  # and not given yet
        return state if taken is None else state | {"epoch": taken.epoch, "batch": taken.index}

    def load_state_dict(self, state: dict[str, Any], on_change: str = "refuse") -> None:
        """Goes on at a position; the next iteration gives the rest of its epoch. SpecError names what differs
        if it belongs to another data set, seed or global batch; transforms and dtype are not compared. After an
        error the loader is where it was.

        on_change="allow": the data set may have changed. The loader goes on at the same batch of the same
        epoch; the order is that of the data set as it is now, so in this one epoch samples may come twice or
        not at all. SpecError if there is no such batch any more."""
        if on_change not in ("refuse", "allow"):
            raise SpecError(f"on_change is {on_change!r}, allowed: 'refuse', 'allow'", "SL_E_SPEC")
        self._reopen(state, on_change == "allow")

    # ---- looking ----

    @property
    def spec(self) -> dict[str, Any]:
        """The spec as a dict (docs/spec.md)."""
        spec: dict[str, Any] = json.loads(json.dumps(self._spec))
        return spec

    @property
    def classes(self) -> list[str]:
        """Class names by label."""
        names: list[str] = self.report()["classes"]
        return names

    @property
    def info(self) -> dict[str, Any]:
        """Sizes: batch_size, batches_per_epoch, samples, epochs, slots, ..., and the daemon's version."""
        return dict(self._info)

    def stats(self) -> dict[str, Any]:
        """Counters since the stream was opened. `wait_s`: the job waited for data; `ring_full_s`: data waited
        for the job; `held`: batches of the ring that this process holds; `copied`: those given as copies; `reconnects`:
        daemons that were lost and followed by another one, over all of which the counters go."""
        return self._opened().stats()

    def report(self) -> dict[str, Any]:
        """Each epoch's account and every sample that failed, with path, kind and reason."""
        return self._opened().report()

    # ---- end ----

    def close(self) -> None:
        """Ends the stream; what needs one raises ClosedError from now on. Batches that are held stay valid.
        Happens by itself when the loader is let go of."""
        self._closed, self._left = True, None
        self._stream.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._spec, self._options)

    def __repr__(self) -> str:
        if "_info" not in vars(self):  # in a traceback's variables
            return "<speedyloader.Loader that could not be opened>"
        dataset = self._spec["dataset"]
        return f"<speedyloader.Loader {dataset.get('path', dataset)}: {len(self)} batches an epoch>"


def _rebuild(spec: dict[str, Any], options: dict[str, Any]) -> Loader:
    return Loader.from_spec(spec, **options)
