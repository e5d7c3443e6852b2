"""What to read: classes that produce the spec's `dataset`. Plain values; the daemon does the looking."""

import dataclasses
import os
from typing import Any


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
