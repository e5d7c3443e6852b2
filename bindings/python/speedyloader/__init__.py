"""SpeedyLoader: batches of decoded samples from the host's loader daemon, zero-copy.

    import speedyloader as sl
    loader = sl.Loader("/data/train", [sl.RandomResizedCrop(224), sl.RandomHorizontalFlip(),
                                       sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)], batch_size=64)
    for batch in loader:
        images, labels = batch.torch("image", "label")

Importing needs no framework. A private daemon is started if none runs, and leaves by itself.
"""

from ._core import Tensor
from ._core import version as _version
from .batch import Batch
from .datasets import ImageFolder, Mix
from .errors import (
    BudgetError,
    ClosedError,
    DatasetError,
    DeniedError,
    DisconnectedError,
    Error,
    ForkedError,
    NoDaemonError,
    NotFoundError,
    RingExhausted,
    SampleError,
    SpecError,
    StreamEnded,
    TooManyFailuresError,
    UnsupportedError,
    WaitTimeout,
)
from .loader import Loader
from .transforms import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    CenterCrop,
    Decode,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)

__version__ = _version()

__all__ = [
    "IMAGENET_MEAN", "IMAGENET_STD", "Batch", "BudgetError", "CenterCrop", "ClosedError", "DatasetError",
    "Decode", "DeniedError", "DisconnectedError", "Error", "ForkedError", "ImageFolder", "Loader", "Mix",
    "NoDaemonError", "Normalize", "NotFoundError", "RandomHorizontalFlip", "RandomResizedCrop", "Resize",
    "RingExhausted", "SampleError", "SpecError", "StreamEnded", "Tensor", "TooManyFailuresError",
    "UnsupportedError", "WaitTimeout",
]
