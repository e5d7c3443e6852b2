"""What stands for torch.utils.data.DataLoader in torch's own tests (bench/peer_suite.py).

The suite's module imports `DataLoader` from here, in its spawned processes too. Data sets get ours, by
torch's arguments, at the daemon of $SPEEDYLOADER_PEER_SOCKET; a DataPipe, which is refused, gets torch's own, so
that tests about several kinds go on to the end. Which of them a test has made is written to the file
$SPEEDYLOADER_PEER_MADE, one byte each: a test that made none of ours shows nothing. Differences that the
suite must not see: persistent_workers=False, which it says where it means the default, is left out;
reseed=False, for the suite tests torch's seeding of workers; and a private attribute of torch's, which tests
of other things look at. Fails as they do.
"""

import os
from typing import TypeVar

import torch
from speedyloader.torch import DataLoader as Ours

OURS, TORCHS = b"o", b"t"
T = TypeVar("T", covariant=True)


def note(which):
    """One write, so that processes do not disturb each other."""
    file = os.open(os.environ["SPEEDYLOADER_PEER_MADE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, which)
    finally:
        os.close(file)


class DataLoader(Ours[T]):
    """See above."""

    def __new__(cls, dataset, *arguments, **named):
        if isinstance(dataset, torch.utils.data.IterDataPipe):
            note(TORCHS)
            return torch.utils.data.DataLoader(dataset, *arguments, **named)
        note(OURS)
        return super().__new__(cls)

    def __init__(self, dataset, *arguments, **named):
        if not named.get("persistent_workers"):
            named.pop("persistent_workers", None)
        super().__init__(dataset, *arguments, reseed=False,
                         socket=os.environ["SPEEDYLOADER_PEER_SOCKET"], **named)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None
