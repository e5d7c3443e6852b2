"""`Batch`: what a Loader gives. A mapping from names to tensors, and its ways into each framework.

Any thread. The batch's memory stays as it is while the batch, one of its tensors, or any array made of one
lives; with the last of them the ring gets its slot back.
"""

from collections.abc import Callable, Iterator
from typing import Any

from . import _core, frameworks


class Batch:
    """One batch. `batch["image"]` is a `Tensor`; `dict(batch)` works; `.torch()` and friends convert.

    Read-only unless `copied`: it lies in memory that the daemon shares with every job. NumPy and JAX refuse
    writes. PyTorch does not know read-only memory: in-place operations change this process's view only,
    until the batch is let go of; nobody else sees them, and later batches are as if they had not been. Each
    page that is written costs a copy of it.
    """

    __slots__ = ("_core", "__weakref__")

    def __init__(self, core: _core.Batch) -> None:
        self._core = core

    def __getitem__(self, name: str) -> _core.Tensor:
        """The `Tensor` of that name. KeyError lists the names."""
        return self._core.tensor(name)

    def __contains__(self, name: object) -> bool:
        return name in self._core.names

    def __iter__(self) -> Iterator[str]:
        return iter(self._core.names)

    def keys(self) -> tuple[str, ...]:
        """Names of the tensors: image, label, sample_id, valid, and with `explain` crop_box and flip."""
        return self._core.names

    def items(self) -> list[tuple[str, _core.Tensor]]:
        """(name, Tensor) pairs."""
        return [(name, self._core.tensor(name)) for name in self._core.names]

    @property
    def count(self) -> int:
        """Rows; the last batch of an epoch may have fewer than batch_size."""
        return self._core.count

    @property
    def epoch(self) -> int:
        """Epoch, from 0."""
        return self._core.epoch

    @property
    def index(self) -> int:
        """Index of the batch in its epoch."""
        return self._core.index

    @property
    def step(self) -> int:
        """Batches before this one since epoch 0."""
        return self._core.step

    @property
    def copied(self) -> bool:
        """Whether it is private, writable memory (copy=True, or the ring had no slot to spare)."""
        return self._core.copied

    def samples(self) -> list[dict[str, Any]]:
        """What is known of each row: a list of dicts with sample_id, planned_id (differs for a substitute),
        valid, lane, predicted_us and actual_us (microseconds of CPU time)."""
        return [self._core.sample(row) for row in range(self._core.count)]

    def copy(self) -> "Batch":
        """The same batch in private, writable memory; the original can be let go of."""
        return Batch(self._core.copy())

    def numpy(self, *names: str, copy: bool = False) -> Any:
        """NumPy arrays, zero-copy and read-only. With names a tuple in their order (one name: that array);
        without, a dict of all. bfloat16 needs the package ml_dtypes."""
        return self._convert(frameworks.to_numpy, names, copy)

    def torch(self, *names: str, copy: bool = False) -> Any:
        """PyTorch tensors on the CPU, zero-copy. In-place operations change this process's view only, until
        the batch is let go of."""
        return self._convert(frameworks.to_torch, names, copy)

    def jax(self, *names: str, copy: bool = False) -> Any:
        """JAX arrays on the CPU, zero-copy; but 64-bit integers are narrowed, by a copy, unless
        jax_enable_x64 is set."""
        return self._convert(frameworks.to_jax, names, copy)

    def tf(self, *names: str, copy: bool = False) -> Any:
        """TensorFlow tensors on the CPU, zero-copy; `.numpy()` of one copies."""
        return self._convert(frameworks.to_tf, names, copy)

    def _convert(self, convert: Callable[[_core.Tensor], Any], names: tuple[str, ...], copy: bool) -> Any:
        core = self._core.copy() if copy else self._core
        if not names:
            return {name: convert(core.tensor(name)) for name in core.names}
        made = tuple(convert(core.tensor(name)) for name in names)
        return made[0] if len(made) == 1 else made

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {tensor.dtype}{list(tensor.shape)}" for name, tensor in self.items())
        return f"<speedyloader.Batch {self.index} of epoch {self.epoch}: {shapes}>"
