"""Exceptions. All derive from `Error`, and where Python has a fitting class, from that one too.

`Error.code` is the C API's name of the status ("SL_E_SPEC", ...), `Error.errno` the operating system's number
or None. Raised by the extension module through `from_record`; what the C API has no status for, by its class.
"""

from typing import Any


class Error(Exception):
    """Base of everything that SpeedyLoader raises."""

    def __init__(self, message: str, code: str = "SL_E_INTERNAL", errno: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.errno: int | None = errno


class SpecError(Error, ValueError):
    """The spec, a state, or an argument is wrong; the message names the key."""


class DatasetError(Error):
    """The data set cannot be used."""


class NotFoundError(Error, LookupError):
    """No such file, folder or tensor."""


class DeniedError(Error, PermissionError):
    """This user may not do that."""


class BudgetError(Error, MemoryError):
    """More memory was asked for than there is; the message has both numbers."""


class DisconnectedError(Error, ConnectionError):
    """The daemon has gone, and no other one was found within the loader's `reconnect` seconds. Batches at hand
    stay valid. The iterator looks again when it is asked for its next batch; `state_dict()` still says where the
    stream was: `loader.load_state_dict(loader.state_dict())` goes on right there, a new `for` begins the next
    epoch. Three daemons that are lost in a row before they gave a batch are this error for good."""


class NoDaemonError(Error, ConnectionError):
    """No daemon answers and none could be started."""


class ForkedError(Error, RuntimeError):
    """The loader belongs to the parent process; make one in the child."""


class UnsupportedError(Error, NotImplementedError):
    """Known, but not to this version or on this machine."""


class WaitTimeout(Error, TimeoutError):
    """No batch came within the loader's `timeout`; the next call goes on waiting."""


class StreamEnded(Error, RuntimeError):
    """Every epoch that the spec asks for has been delivered."""


class ClosedError(Error, RuntimeError):
    """The loader was closed, here or by another thread. Batches at hand stay valid."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "SL_E_INVALID_ARGUMENT")


class RingExhausted(Error, RuntimeError):
    """Every slot of the ring is held by this process; the message says by which batches.

    Only with `ring_full="error"`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, "SL_E_BUDGET")


class TooManyFailuresError(Error):
    """`max_failures` or `max_rate` was passed; `Loader.report()` names every failed sample."""


class SampleError(Error):
    """A sample failed under `errors="fail"`.

    `sample_id` (int), `path`, `kind` ("truncated", "corrupt", ...), `offset` (bytes into the file, or None).
    """

    def __init__(self, message: str, code: str, errno: int | None, sample_id: int, path: str, kind: str,
                 offset: int | None) -> None:
        super().__init__(message, code, errno)
        self.sample_id = sample_id
        self.path = path
        self.kind = kind
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        where = (self.sample_id, self.path, self.kind, self.offset)
        return type(self), (*self.args, self.code, self.errno, *where)


_CLASSES: dict[str, type[Error]] = {
    "SL_E_INVALID_ARGUMENT": SpecError, "SL_E_SPEC": SpecError, "SL_E_DATASET": DatasetError,
    "SL_E_NOT_FOUND": NotFoundError, "SL_E_DENIED": DeniedError, "SL_E_BUDGET": BudgetError,
    "SL_E_NO_MEMORY": BudgetError, "SL_E_DISCONNECTED": DisconnectedError, "SL_E_NO_DAEMON": NoDaemonError,
    "SL_E_FORKED": ForkedError, "SL_E_UNSUPPORTED": UnsupportedError,
    "SL_E_TOO_MANY_FAILURES": TooManyFailuresError,
}


def from_record(code: str, message: str, kind: str, sample_id: int, path: str, offset: int,
                errno: int) -> Error:
    """The exception for a C API error record. Strings are "" and numbers 0 (offset: -1) for "none"."""
    if code == "SL_E_SAMPLE":
        text = f"sample {sample_id} ({path}): {kind}: {message}"
        return SampleError(text, code, errno or None, sample_id, path, kind, None if offset < 0 else offset)
    return _CLASSES.get(code, Error)(message, code, errno or None)
