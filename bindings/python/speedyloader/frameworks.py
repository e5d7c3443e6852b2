"""A `Tensor` as an array of NumPy, PyTorch, JAX or TensorFlow. Each is imported only when it is asked for.

By name, so that type checkers need none of them either.
"""

import importlib
from typing import Any

from ._core import Tensor


class _Bits:
    """A bfloat16 tensor's bytes as uint16, for NumPy's array interface; keeps the tensor alive."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self.__array_interface__: dict[str, Any] = {
            "shape": tensor.shape, "typestr": "<u2", "strides": None, "version": 3,
            "data": (tensor.data_ptr, tensor.readonly)}


def to_numpy(tensor: Tensor) -> Any:
    """A view of the tensor; read-only where it is. ImportError: bfloat16 without ml_dtypes."""
    numpy: Any = importlib.import_module("numpy")
    if tensor.dtype != "bfloat16":
        return numpy.asarray(tensor)
    ml_dtypes: Any = importlib.import_module("ml_dtypes")
    return numpy.asarray(_Bits(tensor)).view(ml_dtypes.bfloat16)


def to_torch(tensor: Tensor) -> Any:
    """A CPU tensor, zero-copy."""
    torch: Any = importlib.import_module("torch")
    return torch.from_dlpack(tensor)


def to_jax(tensor: Tensor) -> Any:
    """A CPU array, zero-copy."""
    dlpack: Any = importlib.import_module("jax.dlpack")
    return dlpack.from_dlpack(tensor)


def to_tf(tensor: Tensor) -> Any:
    """A CPU tensor."""
    tensorflow: Any = importlib.import_module("tensorflow")
    return tensorflow.experimental.dlpack.from_dlpack(tensor.capsule())
