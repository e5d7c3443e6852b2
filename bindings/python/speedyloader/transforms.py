"""What to do to each picture: classes that produce the spec's `pipeline`.

Names, arguments, distributions and rounding are torchvision's; sizes are pixels, (height, width). The work is
done in the daemon's workers. Every random draw is a function of (seed, epoch, sample id, transform), so it
does not depend on the number of workers.
"""

import dataclasses
import operator
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from .errors import SpecError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@runtime_checkable
class Transform(Protocol):
    """A step of the pipeline: one of the classes below."""

    def spec(self) -> dict[str, Any]:
        """The step as the spec has it."""


def _one_or_two(size: Any) -> int | list[int]:
    """A side or (height, width) as the spec has it; a side may be an integer of another class, as NumPy's."""
    if isinstance(size, int):
        return size
    try:
        return operator.index(size)
    except TypeError:
        return list(size)


def _pair(size: int | tuple[int, int]) -> list[int]:
    sides = _one_or_two(size)
    return sides if isinstance(sides, list) else [sides, sides]


@dataclasses.dataclass(frozen=True)
class Decode(Transform):
    """Pictures to `channels` channels: 3 (RGB) or 1 (grey). First of a pipeline; added if it is left out."""

    channels: int = 3

    def spec(self) -> dict[str, Any]:
        return {"op": "decode", "channels": self.channels}


@dataclasses.dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """A random box of `scale` of the area and an aspect of `ratio`, resized to `size`: an int or
    (height, width)."""

    size: "int | tuple[int, int]"
    scale: "tuple[float, float]" = (0.08, 1.0)
    ratio: "tuple[float, float]" = (3 / 4, 4 / 3)

    def spec(self) -> dict[str, Any]:
        return {"op": "random_resized_crop", "size": _pair(self.size), "scale": list(self.scale),
                "ratio": list(self.ratio)}


@dataclasses.dataclass(frozen=True)
class Resize(Transform):
    """To (height, width), or with an int so that the shorter side has that length."""

    size: "int | tuple[int, int]"

    def spec(self) -> dict[str, Any]:
        return {"op": "resize", "size": _one_or_two(self.size)}


@dataclasses.dataclass(frozen=True)
class CenterCrop(Transform):
    """The middle `size` (int or (height, width)) of the picture."""

    size: "int | tuple[int, int]"

    def spec(self) -> dict[str, Any]:
        return {"op": "center_crop", "size": _pair(self.size)}


@dataclasses.dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Left and right exchanged with probability `p`."""

    p: float = 0.5

    def spec(self) -> dict[str, Any]:
        return {"op": "random_horizontal_flip", "p": self.p}


@dataclasses.dataclass(frozen=True)
class Normalize(Transform):
    """(x / 255 - mean) / std for each channel; `IMAGENET_MEAN` and `IMAGENET_STD` are the usual values."""

    mean: "tuple[float, ...]"
    std: "tuple[float, ...]"

    def spec(self) -> dict[str, Any]:
        return {"op": "normalize", "mean": list(self.mean), "std": list(self.std)}


def pipeline(transforms: "Iterable[Transform] | Transform") -> list[dict[str, Any]]:
    """The spec's `pipeline` of a sequence of transforms."""
    if isinstance(transforms, Transform):
        transforms = [transforms]
    made = []
    for number, transform in enumerate(transforms):
        if not isinstance(transform, Transform):
            raise SpecError(f"transforms[{number}] is {transform!r}, allowed: this package's transforms "
                            "(speedyloader.RandomResizedCrop, ...)", "SL_E_SPEC")
        made.append(transform.spec())
    if not made or made[0]["op"] != "decode":
        made.insert(0, Decode().spec())
    return made
