"""What to read: classes that produce the spec's `dataset`. Plain values; the daemon does the looking."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from .errors import SpecError


@dataclasses.dataclass(frozen=True)
class ImageFolder:
    """A folder of pictures; sub-folders are classes, labelled by sorted name as in torchvision's ImageFolder.

    A folder of pictures without sub-folders is one class named "". Beside class folders, loose pictures are
    left out and counted in `Loader.report()`; an empty class folder keeps its label; names with a dot in front
    are passed over.

    `path` may begin with `~`; a relative one is meant from the current folder. A picture of more than
    `max_pixels` is a `pixel_budget` error before any memory is taken for it. `subset` is the part to deliver:
    `{"fraction": 0.1}`, the same samples in every run and about a tenth of each class; `{"ids": [3, 14]}`;
    or `{"labels": ["cat", 3]}`, names or numbers of classes. Ids and labels stay those of the whole folder.
    """

    path: "str | os.PathLike[str]"
    max_pixels: "int | None" = None
    subset: "dict[str, Any] | None" = None

    def spec(self) -> dict[str, Any]:
        """The spec's `dataset`."""
        path = os.path.abspath(os.path.expanduser(os.fspath(self.path)))
        made: dict[str, Any] = {"kind": "image_folder", "path": path}
        if self.max_pixels is not None:
            made["max_pixels"] = self.max_pixels
        if self.subset is not None:
            made["subset"] = self.subset
        return made


@dataclasses.dataclass(frozen=True)
class Mix:
    """Several folders as one data set, mixed evenly, so that every stretch of an epoch holds each one's share.

        sl.Mix([sl.ImageFolder("/data/photos"), sl.ImageFolder("/data/drawings")], weights=[3, 1])

    Without `weights` every sample of each part comes once an epoch. With them, one above 0 for each part, an epoch
    has the parts in just these proportions: the part that runs out first gives all of its samples, each other one
    as many as its weight asks for, no sample twice, and other ones in the next epoch until all have come.

    Classes are those of all parts by sorted name, and labels count in them; a sample's id is its id in its part,
    with the sizes of the folders before it added. A part is an `ImageFolder`, `subset=` included, or a path;
    `max_pixels` is said here, for all.
    """

    parts: "Sequence[ImageFolder | str | os.PathLike[str]]"
    weights: "Sequence[float] | None" = None
    max_pixels: "int | None" = None

    def spec(self) -> dict[str, Any]:
        """The spec's `dataset`."""
        if isinstance(self.parts, (str, os.PathLike)):
            raise SpecError(f"parts is {self.parts!r}, allowed: a list of paths and ImageFolders", "SL_E_SPEC")
        made: dict[str, Any] = {"kind": "mix", "parts": [_part(part) for part in self.parts]}
        if self.weights is not None:
            made["weights"] = self.weights
        if self.max_pixels is not None:
            made["max_pixels"] = self.max_pixels
        return made


def _part(part: "ImageFolder | str | os.PathLike[str]") -> dict[str, Any]:
    if isinstance(part, (str, os.PathLike)):
        part = ImageFolder(part)
    if not hasattr(part, "spec"):
        raise SpecError(f"a part is {part!r}, allowed: a path or an ImageFolder", "SL_E_SPEC")
    return part.spec()
