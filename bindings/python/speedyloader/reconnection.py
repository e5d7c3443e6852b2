"""What `reconnect` means: how long a lost daemon's successor is looked for.

`Loader`'s streams are the C library's to bring to the next daemon; where a loader opens another one, for it goes to
a position, that is `patiently`. Streams of guest workers are opened anew by whoever iterates, because the guests have
to be called to the next daemon: that is `Search`. One thread at a time.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from .errors import DisconnectedError, Error, NoDaemonError, SpecError

_NEVER_MS = -2  # SL_NO_RECONNECT
_FOREVER_MS = -1  # SL_WAIT_FOREVER
_DEFAULT_S = 5.0
_LONGEST_S = 1e9  # beyond it is for ever
_PAUSE_S = 0.1  # between two looks
_FRUITLESS = 3  # daemons in a row that are lost without a batch

log = logging.getLogger("speedyloader")
_Result = TypeVar("_Result")


def milliseconds(reconnect: float | bool | None) -> int:
    """`reconnect` as the C library has it. SpecError for what it cannot be."""
    if reconnect is None or reconnect is True:
        return 0
    if not isinstance(reconnect, (bool, int, float)) or not reconnect >= 0:
        raise SpecError(f"reconnect is {reconnect!r}, allowed: seconds from 0 on, True, False or None", "SL_E_SPEC")
    if reconnect > _LONGEST_S:
        return _FOREVER_MS
    return max(1, int(reconnect * 1000)) if reconnect else _NEVER_MS


def _seconds(reconnect: float | bool | None) -> float:
    ms = milliseconds(reconnect)
    return {0: _DEFAULT_S, _NEVER_MS: 0.0, _FOREVER_MS: float("inf")}.get(ms, ms / 1000)


def patiently(reconnect: float | bool | None, attempt: Callable[[], _Result]) -> _Result:
    """What `attempt` returns; as long as no daemon answers it is made again, for the time of `reconnect`."""
    until = time.monotonic() + _seconds(reconnect)
    while True:
        try:
            return attempt()
        except (DisconnectedError, NoDaemonError):
            if time.monotonic() >= until:
                raise
        time.sleep(_PAUSE_S)


class Search:
    """Decides, each time that a daemon is lost or none is found, whether to look again."""

    def __init__(self, reconnect: float | bool | None) -> None:
        self.reconnects = 0
        self._patience = _seconds(reconnect)
        self._until: float | None = None  # while a daemon is looked for
        self._lost = 0  # since the last batch
        self._had = False  # there has been a daemon

    def again(self, error: Error, was_open: bool) -> None:
        """Returns after a pause, or raises: patience has ended. was_open: the daemon had a stream of ours."""
        if not self._had:
            raise error  # nothing was lost: there is none
        if was_open:
            self._lost += 1
        if self._until is None:
            self._until = time.monotonic() + self._patience
        if time.monotonic() < self._until and self._lost <= _FRUITLESS:
            time.sleep(0 if was_open else _PAUSE_S)
            return
        self._until = None
        if isinstance(error, DisconnectedError):
            raise error
        raise DisconnectedError(str(error), "SL_E_DISCONNECTED", error.errno) from error

    def opened(self) -> None:
        """There is a daemon with a stream of ours."""
        self._had = True
        if self._until is not None:
            self.reconnects += 1
            self._until = None
            log.warning("the daemon was lost; the epoch goes on with another one")

    def gave(self) -> None:
        """A batch has come."""
        self._lost = 0
