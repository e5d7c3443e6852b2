"""What DataLoader's arguments may be: torch's rules, in torch's words where they are torch's.

Pure functions. ValueError and TypeError name the argument, and what to do instead.
"""

import importlib
import os
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")

_ADVICE = {
    "pin_memory_device": "leave it out: pin_memory=True pins for the accelerator that is there",
    "worker_method": "leave it out: guest workers are processes",
}


def refuse_unknown(others: dict[str, Any]) -> None:
    """TypeError for arguments that there are not here."""
    for name in others:
        advice = _ADVICE.get(name)
        if advice is None:
            raise TypeError(f"DataLoader() got an unexpected keyword argument {name!r}")
        raise TypeError(f"DataLoader() does not take {name}: {advice}")


def check_dataset(dataset: Any) -> None:
    """TypeError for what is no map-style data set."""
    if isinstance(dataset, data.IterableDataset):
        raise TypeError(f"{type(dataset).__name__} is an IterableDataset, of which items cannot be asked for by "
                        "index: guest workers serve map-style data sets (with __getitem__ and __len__). Keep "
                        "torch.utils.data.DataLoader for this one")
    if not hasattr(dataset, "__getitem__"):
        raise TypeError(f"dataset is {dataset!r}, allowed: a map-style data set, which has __getitem__")


def check_numbers(arguments: dict[str, Any]) -> None:
    """ValueError for numbers that are none, or too small, and for choices that there are not."""
    if arguments["num_workers"] < 0:
        raise ValueError("num_workers option should be non-negative; num_workers=0 takes as many as this process "
                         "may use cores")
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


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
