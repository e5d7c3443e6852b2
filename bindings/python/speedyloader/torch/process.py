"""What a guest worker's process is like before it does anything: threads, memory, and what it knows of itself.

`prepare` is called once, first, by the process's only thread; nothing fails.
"""

import contextlib
import ctypes
import importlib
import os
import signal
from typing import Any

torch: Any = importlib.import_module("torch")
worker: Any = importlib.import_module("torch.utils.data._utils.worker")

# Of <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_MAX = -4
_KEPT_BYTES = 256 << 20  # of freed memory at the heap's end
_AHEAD_BYTES = 64 << 20  # that the heap grows by: what is large rarely fits exactly where it was freed


def prepare() -> None:
    """As torch prepares its workers, but for memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client has it too, and knows what to do
    torch.set_num_threads(1)
    _keep_memory()
    _keep_tensors_private()


def introduce(number: int, workers: int, seed: int, dataset: Any) -> None:
    """Sets what get_worker_info() tells."""
    worker._worker_info = worker.WorkerInfo(id=number, num_workers=workers, seed=seed, dataset=dataset)


def _keep_memory() -> None:
    """Has malloc keep what is freed, for the next item. glibc gives back what is large, and the page faults of
    having it again cost as much as a batch of photographs takes to be stacked. Who has set malloc up otherwise knows
    better; other C libraries have no such call."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TOP_PAD, _AHEAD_BYTES)


def _keep_tensors_private() -> None:
    """Has torch's default_collate stack tensors in private memory. In a worker it takes shared memory, for a queue
    that there is not here."""
    functions: Any = importlib.import_module("torch.utils.data._utils.collate").default_collate_fn_map
    original = functions[torch.Tensor]

    def stack(batch: Any, **options: Any) -> Any:
        info, worker._worker_info = worker._worker_info, None
        try:
            return original(batch, **options)
        finally:
            worker._worker_info = info

    functions[torch.Tensor] = stack
