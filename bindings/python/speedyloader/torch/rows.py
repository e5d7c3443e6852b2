"""Fixed rows: items whose every leaf is a tensor, an array or a number of one dtype and shape.

Such a leaf has a tensor of its own in the batch, which the daemon's assembler fills; what the client makes of
these is what torch's default_collate would have made of the items, without a copy. `describe` tells what an
item is, or None where it is not of this kind; it is the measure for every later item. Pure functions; guests
and client use them.
"""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from . import codec

numpy: Any = importlib.import_module("numpy")
torch: Any = importlib.import_module("torch")

MOST_FIELDS = 16
_MOST_DIMS = 3  # that the daemon's rows have
_NATIVE = {"float32", "float16", "bfloat16", "uint8", "int64", "uint64", "int32"}

# ("leaf", class, dtype of torch, shape) | ("dict", keys, parts) | ("list" | "tuple", parts) |
# ("named", class, parts)
Structure = tuple[Any, ...]

_dtypes: dict[Any, str | None] = {}  # of torch, by dtype or scalar type of NumPy


def _known_dtype(kind: Any, sample: Any) -> str | None:
    """torch's dtype for arrays or scalars of NumPy; None where torch has none."""
    if kind not in _dtypes:
        try:
            _dtypes[kind] = str(torch.as_tensor(sample).dtype).removeprefix("torch.")
        except (TypeError, ValueError, RuntimeError):
            _dtypes[kind] = None
    return _dtypes[kind]


def _leaf(value: Any) -> Structure | None:
    kind = type(value)
    if kind is int:
        return ("leaf", int, "int64", ()) if -(2**63) <= value < 2**63 else None
    if kind is float or kind is bool:
        return ("leaf", kind, "float64" if kind is float else "bool", ())
    if kind is torch.Tensor:
        if not codec.is_plain(value):
            return None
        dtype: str | None = str(value.dtype).removeprefix("torch.")
    elif kind is numpy.ndarray or kind is numpy.memmap:
        kind, dtype = numpy.ndarray, _known_dtype(value.dtype, numpy.empty(1, value.dtype))
    elif issubclass(kind, (numpy.number, numpy.bool_)):
        return ("leaf", kind, dtype, ()) if (dtype := _known_dtype(kind, [value])) == value.dtype.name else None
    else:
        return None
    shape = tuple(value.shape)
    return None if dtype is None or 0 in shape else ("leaf", kind, dtype, shape)


def describe(item: Any) -> Structure | None:
    """The structure of an item; None: it has a leaf that has no fixed size, or a container that is not one of
    dict, list, tuple and named tuple."""
    kind = type(item)
    if kind is dict:
        parts = _parts(item.values())
        plain = all(type(key) is str or type(key) is int for key in item)
        return None if parts is None or not plain else ("dict", tuple(item), parts)
    if kind is tuple or kind is list:
        parts = _parts(item)
        return None if parts is None else (kind.__name__, parts)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        parts = _parts(item)
        return None if parts is None else ("named", kind, parts)
    return _leaf(item)


def _parts(items: Any) -> tuple[Structure, ...] | None:
    parts = []
    for item in items:
        part = describe(item)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def leaves(structure: Structure) -> Iterator[Structure]:
    """Its leaves, in order."""
    if structure[0] == "leaf":
        yield structure
    else:
        for part in structure[-1]:
            yield from leaves(part)


def _values(item: Any, structure: Structure) -> Iterator[Any]:
    if structure[0] == "leaf":
        yield item
    else:
        inner = item.values() if structure[0] == "dict" else item
        for value, part in zip(inner, structure[-1], strict=True):
            yield from _values(value, part)


def is_fixed(structure: Structure | None) -> bool:
    """Whether batches of such items can have a tensor for each leaf."""
    return structure is not None and 1 <= sum(1 for _ in leaves(structure)) <= MOST_FIELDS


def _bytes(leaf: Structure) -> int:
    size: int = getattr(torch, leaf[2]).itemsize
    for length in leaf[3]:
        size *= length
    return size


def item_bytes(structure: Structure) -> int:
    """What an item takes."""
    return sum(_bytes(leaf) for leaf in leaves(structure))


def to_spec(structure: Structure) -> list[dict[str, Any]]:
    """The spec's `rows`. A dtype that the daemon does not know goes as bytes."""
    rows: list[dict[str, Any]] = []
    for number, leaf in enumerate(leaves(structure)):
        native = leaf[2] in _NATIVE and len(leaf[3]) <= _MOST_DIMS
        rows.append({"name": f"leaf{number}", "dtype": leaf[2] if native else "uint8",
                     "shape": list(leaf[3]) if native else [_bytes(leaf)]})
    return rows


def write(item: Any, structure: Structure, fields: Sequence[memoryview]) -> None:
    """Copies an item of that structure into a sample slot's fields."""
    for leaf, value, field in zip(leaves(structure), _values(item, structure), fields, strict=True):
        if leaf[1] is torch.Tensor:
            torch.frombuffer(field, dtype=value.dtype).view(leaf[3]).copy_(value)
        elif leaf[1] is numpy.ndarray:
            numpy.copyto(numpy.frombuffer(field, value.dtype).reshape(leaf[3]), value)
        else:
            numpy.frombuffer(field, leaf[2])[0] = value


def rebuild(structure: Structure, tensors: Iterator[Any]) -> Any:
    """The batch, as default_collate gives it: tuples become lists."""
    kind = structure[0]
    if kind == "leaf":
        tensor = next(tensors)
        dtype = getattr(torch, structure[2])
        if tensor.dtype is not dtype:
            tensor = tensor.view(dtype)
        return tensor.view(tensor.shape[0], *structure[3])
    parts = [rebuild(part, tensors) for part in structure[-1]]
    if kind == "dict":
        return dict(zip(structure[1], parts, strict=True))
    return structure[1](*parts) if kind == "named" else parts
