"""What DataLoader's arguments may be: torch's rules, in torch's words where they are torch's.

Pure functions. ValueError and TypeError name the argument, and what to do instead.
"""

import importlib
import os
import warnings
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")

_SETTLED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
_PREFETCHED = 2  # batches of a shard, as of torch's workers
_ADVICE = {
    "pin_memory_device": "leave it out: pin_memory=True pins for the accelerator that is there",
    "worker_method": "leave it out: guest workers are processes",
}


class Settled:
    """A loader whose order cannot be changed by setting an attribute, once `_is_settled`: guests and streams
    would not hear of it."""

    _is_settled = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_settled and name in _SETTLED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)


def refuse_unknown(others: dict[str, Any]) -> None:
    """TypeError for arguments that there are not here."""
    for name in others:
        advice = _ADVICE.get(name)
        if advice is None:
            raise TypeError(f"DataLoader() got an unexpected keyword argument {name!r}")
        raise TypeError(f"DataLoader() does not take {name}: {advice}")


def is_iterable(dataset: Any) -> bool:
    """Whether a data set is iterated over, rather than asked for items. TypeError for what is none."""
    if isinstance(dataset, getattr(data, "IterDataPipe", ())):
        raise TypeError(f"{type(dataset).__name__} is a DataPipe, which only torch's loader shards. Keep "
                        "torch.utils.data.DataLoader for this one, or give an IterableDataset that iterates over it")
    if isinstance(dataset, data.IterableDataset):
        return True
    if not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__getitems__"):
        raise TypeError(f"dataset is {dataset!r}, allowed: a map-style data set, which has __getitem__, or an "
                        "IterableDataset")
    return False


def check_iterable(arguments: dict[str, Any]) -> None:
    """ValueError for what makes no sense where nobody asks for an item."""
    if arguments["shuffle"] not in (None, False):
        raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle option, but got "
                         f"shuffle={arguments['shuffle']}")
    for name in ("sampler", "batch_sampler", "cost_hint"):
        if arguments[name] is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                             f"{name}={arguments[name]}")
    if arguments["order"] == "ready":
        raise ValueError("DataLoader with IterableDataset: order='ready' is not possible, for shards take turns")
    if arguments["errors"] != "fail":
        raise ValueError("DataLoader with IterableDataset: errors must be 'fail', for an iterator has no other item "
                         "in place of one that failed")


def check_numbers(arguments: dict[str, Any]) -> None:
    """ValueError for numbers that are none, or too small, and for choices that there are not; a warning of more
    workers than cores."""
    if arguments["num_workers"] < 0:
        raise ValueError("num_workers option should be non-negative; num_workers=0 takes as many as this process "
                         "may use cores")
    if arguments["num_workers"] > cores():
        warnings.warn(f"This DataLoader will create {arguments['num_workers']} guest workers, and this process may use "
                      f"{cores()} cores. Please be aware that excessive worker creation might get DataLoader running "
                      "slow or even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
                      stacklevel=3)
    if arguments["timeout"] < 0:
        raise ValueError("timeout option should be non-negative")
    factor, most = arguments["prefetch_factor"], arguments["max_item_bytes"]
    if factor is not None and factor < 1:
        raise ValueError("prefetch_factor option should be positive")
    if most is not None and most < 1:
        raise ValueError(f"max_item_bytes is {most}, allowed: None, or a number of bytes from 1 on")
    if arguments["persistent_workers"] is False:
        raise ValueError("persistent_workers=False is not possible: guest workers stay over epochs. Leave it out; "
                         "what changes from epoch to epoch belongs into the sampler, or into what an item is "
                         "asked for")
    if arguments["errors"] not in ("fail", "refill", "placeholder"):
        raise ValueError(f"errors is {arguments['errors']!r}, allowed: 'fail', 'refill', 'placeholder'")
    if arguments["order"] not in (None, "strict", "ready"):
        raise ValueError(f"order is {arguments['order']!r}, allowed: 'strict', 'ready'")


def check_batches(arguments: dict[str, Any]) -> None:
    """ValueError for samplers and batch sizes that exclude each other."""
    size, shuffle, sampler, drop_last = (arguments[name] for name in ("batch_size", "shuffle", "sampler", "drop_last"))
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if arguments["batch_sampler"] is not None:
        if size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                             "drop_last")
        if arguments["order"] == "ready":
            raise ValueError("order='ready' makes batches of whatever is finished, and batch_sampler says which "
                             "items belong together: take order='strict', which is as fast")
    elif size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def slots(prefetch_factor: int | None, iterable: bool) -> int:
    """Of a stream's ring: one for the batch in use, and of a shard one that is being made. 0: the daemon chooses."""
    if iterable:
        return (_PREFETCHED if prefetch_factor is None else prefetch_factor) + 2
    return 0 if prefetch_factor is None else prefetch_factor + 1


def warn_of_length(dataset: Any, promised: int | None, taken: int) -> None:
    """UserWarning where an IterableDataset gives more than its length, which somebody has asked for."""
    if promised is not None and taken > promised:
        warnings.warn(
            f"Length of IterableDataset {dataset} was reported to be {promised}(when accessing len(dataloader)), but "
            f"{taken} samples have been fetched. For multiprocessing data-loading, this could be caused by not "
            "properly configuring the IterableDataset replica at each worker. Please see "
            "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples.", stacklevel=4)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
