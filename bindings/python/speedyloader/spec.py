"""The spec as a dict, made of `Loader`'s arguments and of what this process knows: its rank, its Pillow.

What a value may be is the daemon's to say. Only what JSON text cannot carry is refused here, as a SpecError
that names the key.
"""

import math
import operator
import os
from collections.abc import Iterable
from typing import Any

from .datasets import ImageFolder, Mix
from .distributed import find_rank
from .errors import SpecError
from .pillow import installed_profile
from .transforms import Transform, pipeline


def make_spec(dataset: "ImageFolder | Mix | str | os.PathLike[str]", transforms: Iterable[Transform],
              options: dict[str, Any]) -> dict[str, Any]:
    """The spec of Loader's arguments; what is None is left to the daemon's default."""
    if isinstance(dataset, (str, os.PathLike)):
        dataset = ImageFolder(dataset)
    if not hasattr(dataset, "spec"):
        raise SpecError(f"dataset is {dataset!r}, allowed: a path, an ImageFolder or a Mix", "SL_E_SPEC")
    sections = {
        "output": {"dtype": options["dtype"], "layout": options["layout"]},
        "batch": {"size": options["batch_size"], "last": options["last"]},
        "order": {"shuffle": options["shuffle"], "seed": options["seed"], "policy": options["order"]},
        "shard": {"rank": options["rank"], "world_size": options["world_size"], "uneven": options["uneven"]},
        "errors": {"policy": options["errors"], "max_failures": options["max_failures"],
                   "max_rate": options["max_rate"]},
    }
    spec: dict[str, Any] = {"dataset": dataset.spec(), "pipeline": pipeline(transforms)}
    for name, section in sections.items():
        spec[name] = {key: value for key, value in section.items() if value is not None}
    return spec | {"epochs": options["epochs"], "profile": options["profile"] or installed_profile(),
                   "share": options["share"], "explain": options["explain"]}


def with_rank(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with rank and world size in it: its own, else those of this process."""
    shard = dict(spec.get("shard", {}))
    shard["rank"], shard["world_size"] = find_rank(shard.get("rank"), shard.get("world_size"))
    return {**spec, "shard": shard}


def to_json_types(value: Any, key: str = "") -> Any:
    """A copy of `value`, which the spec has at `key`, of JSON's types only; NumPy's integers become numbers.
    SpecError: a float that is not finite, text that is not UTF-8 (a path may be), or any other class."""
    if isinstance(value, dict):
        return {name: to_json_types(inner, f"{key}.{name}" if key else name) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_types(inner, f"{key}[{place}]") for place, inner in enumerate(value)]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            why = f"{key} {value!r} is not UTF-8, which the spec cannot hold"
            raise SpecError(why, "SL_E_SPEC") from None
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{key} is {float(value)!r}, allowed: finite numbers", "SL_E_SPEC")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if hasattr(value, "tolist"):  # NumPy's and torch's numbers and arrays
        return to_json_types(value.tolist(), key)
    try:
        return operator.index(value)
    except TypeError:
        raise SpecError(f"{key} is {value!r}, allowed: what JSON has", "SL_E_SPEC") from None
