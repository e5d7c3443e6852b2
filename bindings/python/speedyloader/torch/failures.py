"""An exception of a guest as text, and that text as the exception again, in the client.

The text goes the way of every sample's failure: UTF-8, bounded, in the epoch's report. Its first line names
the class. Pure functions.
"""

import sys
import traceback
from typing import Any

_MOST = 15_000  # characters; the daemon keeps 16 KiB
_MAIN = {"__mp_main__": "__main__"}  # what a spawned process calls the client's main module


class _Lines(str):
    """Text that KeyError shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def to_text(error: BaseException, own_file: str) -> str:
    """Class and traceback, without the frames of `own_file` at its begin; the middle of a long one is cut."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == own_file:
        frames = frames.tb_next
    kind = type(error)
    text = "".join(traceback.format_exception(kind, error, frames))
    if len(text) > _MOST:
        text = f"{text[:_MOST // 3]}\n  [{len(text) - _MOST} characters are left out]\n{text[-2 * _MOST // 3:]}"
    return f"{kind.__module__}:{kind.__qualname__}\n{text}"


def _find(name: str) -> type[BaseException] | None:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(_MAIN.get(module, module))
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def to_exception(text: str, place: str) -> BaseException:
    """The exception to raise in the client: the same class with place and traceback as its message, if that
    class can be made of a text, else a RuntimeError."""
    name, _, body = text.partition("\n")
    kind = _find(name)
    shown = name.rpartition(":")[2]
    message = f"Caught {shown} in a guest worker at {place}.\nOriginal {body}"
    if kind is None:
        return RuntimeError(message)
    try:
        return kind(_Lines(message) if issubclass(kind, KeyError) else message)
    except Exception:  # its constructor wants something else
        return RuntimeError(message)
