"""The guests of one loader, as the client sees them: begun once, watched, begun again when they die, ended.

Whoever iterates calls it; a thread of its own looks for guests that have died or have something to say, and
tells `listener`. `failure` is what only another loader helps against. Belongs to the process that made it: in
a forked child `close` has no effect.
"""

import contextlib
import importlib
import multiprocessing.connection
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import failures, guest, rows

_MOST_TEXTS = 1000
_TEXT_S = 1.0  # that what is in the pipe may take
_GRACE_S = 2.0  # between being asked to end and being killed


@dataclass
class _Member:
    """A guest: its process, our end of the pipe, and whether it has begun to work, or ended before that."""

    number: int
    process: Any
    pipe: Any
    ready: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Misfit:
    """An item that does not fit the rows of a stream."""

    stream: int  # guest.Rows.number
    needed: int  # bytes


@dataclass(frozen=True)
class Probed:
    """What an item is like: its structure, if it has a fixed one, and the bytes that it takes as it is. Or why
    it could not be made: an exception's text, or how its guest ended."""

    structure: rows.Structure | None = None
    needed: int = 0
    raised: str | None = None
    died: str | None = None


def how_it_ended(pid: int | None, status: int | None) -> str:
    """An exit status in words: torch's, which programs look for."""
    if status is not None and status < 0:
        return f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-status)}"
    return f"DataLoader worker (pid {pid}) exited unexpectedly with status {status}"


class Crew:
    """See above. `context` is one of multiprocessing, as torch.multiprocessing gives it."""

    def __init__(self, setup: guest.Setup, context: Any) -> None:
        self.failure: BaseException | None = None
        self.failed = threading.Event()  # there is one
        self.lost: list[dict[str, Any]] = []  # guests that died, in order
        # Whom the thread tells of a Misfit, and of a failure (None); returns None when there is nobody.
        self.listener: Callable[[], Callable[[Misfit | None], None] | None] = lambda: None
        self._setup = setup
        self._context = context
        self._pid = os.getpid()
        self._lock = threading.Lock()  # guards the members, what they were told, and closing
        self._members: list[_Member] = []
        self._told: list[Any] = []
        self._closing = False
        self._asked = 0  # the question that the first guest has, from 1
        self._questions = 0
        self._answers: queue.SimpleQueue[tuple[int, Probed]] = queue.SimpleQueue()
        self._texts: dict[tuple[int, int], str] = {}  # why items could not be made, by stream and item
        self._new_text = threading.Condition()
        self._woken, self._wake = multiprocessing.connection.Pipe(duplex=False)
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="speedyloader-guests")
        try:
            for number in range(setup.workers) if setup.only is None else (setup.only,):
                self._members.append(self._begin(number))
        except BaseException:
            self._end_members()
            raise
        self._watcher.start()

    def _begin(self, number: int) -> _Member:
        ours, theirs = self._context.Pipe()
        try:
            process = self._context.Process(target=guest.main, args=(self._setup, number, theirs), daemon=True,
                                            name=f"speedyloader-guest-{number}")
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Member(number, process, ours)

    # ---- what is said to the guests ----

    def tell(self, about: guest.Rows) -> None:
        """Says what the next stream is like, before it is opened."""
        with self._lock:
            self._told = [about]
            self._send(about)

    def attach(self) -> None:
        """Says that there is a daemon with a stream for them."""
        with self._lock:
            self._told.append("attach")
            self._send("attach")

    def _send(self, message: Any) -> None:
        for member in self._members:
            with contextlib.suppress(OSError):  # it has died, which the thread notices
                member.pipe.send(message)

    def ask(self, about: guest.Rows, index: int, timeout: float) -> Probed:
        """Has the first guest make an item, to see what it is like; before any stream. timeout 0: no limit. It does
        not count what a guest takes to begin, which with spawn are seconds."""
        with self._lock:
            first = self._members[0]
            self._questions += 1
            self._asked = asked = self._questions
            with contextlib.suppress(OSError):
                first.pipe.send((about, index, asked))
        first.ready.wait()
        until = time.monotonic() + timeout
        died = None
        try:
            while True:
                try:
                    left = max(until - time.monotonic(), 0) if timeout and died is None else None
                    answered, probed = self._answers.get(timeout=left)
                except queue.Empty:
                    died = f"DataLoader timed out after {timeout} seconds"
                    first.process.kill()  # the answer is its death, then
                    continue
                if answered == asked:
                    return probed if died is None else Probed(died=died)
        finally:
            self._asked = 0

    def text_of(self, stream: int, index: int) -> str | None:
        """Why an item could not be made, as its guest has said it; None if it has not. Its guest says so before
        the daemon can know."""
        with self._new_text:
            self._new_text.wait_for(lambda: (stream, index) in self._texts, _TEXT_S)
            return self._texts.pop((stream, index), None)

    # ---- the thread ----

    def _watch(self) -> None:
        while not self._closing:
            by_handle: dict[Any, _Member] = {}
            for member in self._members:
                by_handle[member.process.sentinel] = member
                if not member.pipe.closed:
                    by_handle[member.pipe] = member
            for handle in multiprocessing.connection.wait([self._woken, *by_handle]):
                if handle is self._woken or self._closing:
                    return
                member = by_handle[handle]
                if handle is member.pipe:
                    self._hear(member)
                elif not member.pipe.closed and member.pipe.poll():
                    self._hear(member)  # its last words first; the sentinel stays as it is
                else:
                    self._replace(member)

    def _hear(self, member: _Member) -> None:
        try:
            kind, *said = member.pipe.recv()
        except (EOFError, OSError):
            with self._lock:  # nobody is sending
                member.pipe.close()
            return
        if kind == "ready":
            member.ready.set()
        elif kind == "probed":
            self._answers.put((said[0], Probed(*said[1:])))
        elif kind == "raised":
            self._answers.put((said[0], Probed(raised=said[1])))
        elif kind == "misfit":
            self._report(Misfit(*said))
        elif kind == "failed":
            with self._new_text:
                if len(self._texts) >= _MOST_TEXTS:
                    del self._texts[next(iter(self._texts))]
                self._texts[said[0], said[1]] = said[2]
                self._new_text.notify_all()
        else:  # worker_init_fn has raised
            self._fail(failures.to_exception(said[0], "worker_init_fn"))

    def _replace(self, member: _Member) -> None:
        member.process.join()
        status = member.process.exitcode
        ended = how_it_ended(member.process.pid, status)
        with self._lock:
            if self._closing:
                return
            self._members.remove(member)
            member.pipe.close()
            self.lost.append({"guest": member.number, "pid": member.process.pid, "exit_status": status})
            member.process.close()
            began = member.ready.is_set()
            member.ready.set()
            if not began or self.failure is not None:
                text = f"{ended}, guest worker {member.number}, before it could begin"
            elif self._setup.only is not None:
                text = (f"{ended}, guest worker {member.number}, and with it the iterator of its shard, "
                        f"{member.number} of {self._setup.workers}: the epoch ends here")
            else:
                text = ""
                try:
                    fresh = self._begin(member.number)
                except Exception as error:
                    text = f"guest worker {member.number} could not be begun again: {error}"
                else:
                    self._members.insert(member.number, fresh)
                    for message in self._told:
                        with contextlib.suppress(OSError):
                            fresh.pipe.send(message)
        if text:
            self._fail(RuntimeError(text))
        elif self._asked and member.number == 0:
            self._answers.put((self._asked, Probed(died=ended)))

    def _fail(self, failure: BaseException) -> None:
        if self.failure is None:
            self.failure = failure
            self.failed.set()
        if self._asked:
            self._answers.put((self._asked, Probed(died="guest workers could not begin")))
        self._report(None)

    def _report(self, what: Misfit | None) -> None:
        listener = self.listener()
        if listener is not None:
            listener(what)

    # ---- end ----

    def close(self) -> None:
        """Ends the guests: asks them, and kills those that do not heed it in time. No zombie is left."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._wake.send(None)
        if threading.current_thread() is not self._watcher:
            self._watcher.join()
        self._end_members()

    def _end_members(self) -> None:
        for member in self._members:
            with contextlib.suppress(OSError):
                member.process.terminate()
        until = time.monotonic() + _GRACE_S
        for member in self._members:
            member.process.join(max(until - time.monotonic(), 0))
            if member.process.exitcode is None:
                member.process.kill()
                member.process.join()
            member.process.close()
            member.pipe.close()
        self._members.clear()
        self._wake.close()
        self._woken.close()


def find_context(wanted: Any) -> Any:
    """torch's multiprocessing with a start method: its name, a context, or None for Python's default."""
    multiprocessing_of_torch: Any = importlib.import_module("torch.multiprocessing")
    if wanted is None:
        return multiprocessing_of_torch
    if isinstance(wanted, str):
        allowed = multiprocessing_of_torch.get_all_start_methods()
        if wanted not in allowed:
            raise ValueError(f"multiprocessing_context option should specify a valid start method in {allowed!r}, but "
                             f"got multiprocessing_context={wanted!r}")
        return multiprocessing_of_torch.get_context(wanted)
    if not isinstance(wanted, multiprocessing.context.BaseContext):
        raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                        f"start method, but got multiprocessing_context={wanted!r}")
    return wanted
