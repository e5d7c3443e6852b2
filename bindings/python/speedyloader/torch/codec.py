"""Any item as bytes of a row, and back: the structure pickled, tensors and arrays beside it, copied once.

Guests encode straight into shared memory, the client decodes to views of it. No threads of its own; whatever
pickle raises comes out. A row:

    0   uint64 bytes of the pickle, uint32 number of buffers, uint32 flags
    16  the pickle (protocol 5), in which bytes and str lie as they are
    8-byte border   uint64 size of each buffer
    64-byte borders the buffers
"""

import collections
import enum
import importlib
import pathlib
import pickle
import struct
import types
from collections.abc import Callable
from typing import Any

numpy: Any = importlib.import_module("numpy")
torch: Any = importlib.import_module("torch")

_HEAD = struct.Struct("<QII")
_PICKLED = 1  # flag: something in the item is of a class that only pickle knows
_BORDER = 64

# Their instances are structure, names or numbers; what else pickle is asked for is counted.
_KNOWN: tuple[Any, ...] = (
    type, types.FunctionType, types.BuiltinFunctionType, numpy.ndarray, numpy.generic, numpy.dtype, torch.dtype,
    torch.Size, torch.device, collections.OrderedDict, collections.defaultdict, collections.deque, complex,
    bytearray, range, slice, enum.Enum, pathlib.PurePath, type(Ellipsis), pickle.PickleBuffer)


def is_plain(tensor: Any) -> bool:
    """Whether a tensor is no more than numbers in the host's memory."""
    return bool(type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.device.type == "cpu"
                and not tensor.requires_grad and not tensor.is_quantized and not tensor.is_nested)


def _up(offset: int, border: int) -> int:
    return -(-offset // border) * border


def _tensor(buffer: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    kind = getattr(torch, dtype)
    if 0 in shape:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(buffer, dtype=kind).view(shape)


class _Sink:
    """A file for the pickler: copies into the row what still fits, and counts the rest too."""

    def __init__(self, row: memoryview) -> None:
        self.row = row
        self.end = _HEAD.size

    def write(self, data: Any) -> int:
        """Appends."""
        view = memoryview(data).cast("B")
        end = self.end + view.nbytes
        if end <= self.row.nbytes:
            self.row[self.end:end] = view
        self.end = end
        return view.nbytes


class _Pickler(pickle.Pickler):
    """Leaves tensors and arrays to the buffer callback."""

    def __init__(self, sink: _Sink, callback: Callable[[pickle.PickleBuffer], Any]) -> None:
        super().__init__(sink, 5, buffer_callback=callback)
        self.pickled = False

    def reducer_override(self, value: Any) -> Any:
        """How pickle takes what is neither number, text nor plain container."""
        if is_plain(value):
            flat = value.resolve_conj().resolve_neg().contiguous().view(-1)
            data = pickle.PickleBuffer(flat.view(torch.uint8).numpy())
            return _tensor, (data, str(value.dtype).removeprefix("torch."), tuple(value.shape))
        if isinstance(value, numpy.ndarray):
            if type(value) is numpy.memmap:
                value = numpy.asarray(value)
            if type(value) is numpy.ndarray and not value.dtype.hasobject:
                if not value.flags.forc:
                    value = numpy.ascontiguousarray(value)
                return value.__reduce_ex__(5)
            self.pickled = True
        elif not isinstance(value, (*_KNOWN, tuple)) and not hasattr(value, "__dataclass_fields__"):
            self.pickled = True
        return NotImplemented


def encode(item: Any, row: memoryview) -> int:
    """Writes an item. The bytes that it needs; where that is more than there are, what was written is no item."""
    sink, buffers = _Sink(row), list[memoryview]()
    pickler = _Pickler(sink, lambda buffer: buffers.append(buffer.raw()))
    pickler.dump(item)
    sizes = _up(sink.end, 8)
    end = sizes + 8 * len(buffers)
    places = []
    for buffer in buffers:
        places.append(_up(end, _BORDER))
        end = places[-1] + buffer.nbytes
    if end > row.nbytes:
        return end
    _HEAD.pack_into(row, 0, sink.end - _HEAD.size, len(buffers), _PICKLED if pickler.pickled else 0)
    struct.pack_into(f"<{len(buffers)}Q", row, sizes, *(buffer.nbytes for buffer in buffers))
    into = numpy.frombuffer(row, numpy.uint8)
    for place, buffer in zip(places, buffers, strict=True):
        into[place:place + buffer.nbytes] = numpy.frombuffer(buffer, numpy.uint8)
    return end


def size_of(item: Any) -> int:
    """The bytes that an item needs."""
    return encode(item, memoryview(bytearray(_HEAD.size)))


def decode(row: memoryview) -> Any:
    """The item of a row: its tensors and arrays lie in the row, and are writable if that is."""
    length, count, _ = _HEAD.unpack_from(row)
    end = _HEAD.size + length
    sizes = _up(end, 8)
    buffers, place = [], sizes + 8 * count
    for size in struct.unpack_from(f"<{count}Q", row, sizes):
        place = _up(place, _BORDER)
        buffers.append(row[place:place + size])
        place += size
    return pickle.loads(row[_HEAD.size:end], buffers=buffers)


def was_pickled(row: memoryview) -> bool:
    """Whether an object of the row's item is of a class that only pickle knows."""
    return bool(_HEAD.unpack_from(row)[2] & _PICKLED)
