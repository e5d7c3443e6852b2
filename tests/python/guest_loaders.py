"""What the tests of speedyloader.torch.DataLoader share: its loaders beside torch's own."""

import contextlib

import torch
from guest_items import Seeded, same
from speedyloader.torch import DataLoader

SEED = 7


@contextlib.contextmanager
def opened(daemon, dataset, **options):
    """A loader of ours that ends with the block, whatever happens in it."""
    loader = DataLoader(dataset, socket=daemon.socket, **{"num_workers": 2, "seed": SEED} | options)
    try:
        yield loader
    finally:
        loader.close()


def torchs(dataset, epoch=0, **options):
    """The batches that torch's loader gives in this process, items seeded as ours are."""
    loader = torch.utils.data.DataLoader(Seeded(dataset, SEED, epoch), **options)
    return list(loader)


def walk(iterator):
    """Batches and exceptions, in order."""
    seen = []
    while True:
        try:
            seen.append(next(iterator))
        except StopIteration:
            return seen
        except Exception as error:
            seen.append(error)


def assert_same_batches(ours, theirs):
    assert len(ours) == len(theirs)
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert same(a, b), (number, a, b)
