"""Random numbers of an item: the same whoever makes it, whenever, and beside whatever else.

Called in guests before each item, and by who wants the numbers of one item again. The state is the process's:
one thread at a time. Other generators than those of random, NumPy and torch's CPU are their owner's.
"""

import hashlib
import importlib
import operator
import random
import sys
from typing import Any

_WORD = 2**64 - 1


def seed_item(seed: int, epoch: int, index: int) -> None:
    """Seeds `random`, NumPy's global generator and torch's default one for item `index` of an epoch."""
    key = b"".join((operator.index(number) & _WORD).to_bytes(8, "little") for number in (seed, epoch, index))
    _seed(hashlib.blake2b(key, digest_size=32, person=b"speedyloader").digest())


def seed_batch(seed: int, epoch: int, number: int) -> None:
    """The same for the collate_fn of batch `number` of an epoch."""
    key = b"".join((operator.index(word) & _WORD).to_bytes(8, "little") for word in (seed, epoch, number))
    _seed(hashlib.blake2b(key, digest_size=32, person=b"speedyloadbatch").digest())


def number_of(key: Any, place: int) -> int:
    """What stands for a sampler's key: an index for itself, whatever its class; else its place."""
    try:
        return operator.index(key)
    except TypeError:
        return place


def shard_base(seed: int, epoch: int) -> int:
    """The base of the seeds of an epoch's shards, where torch would draw it anew."""
    key = b"".join((operator.index(number) & _WORD).to_bytes(8, "little") for number in (seed, epoch))
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"speedyloadshards").digest(), "little") >> 1


def seed_worker(base: int, number: int) -> int:
    """Seeds as torch seeds its worker `number`: a guest that begins, before worker_init_fn, and a shard. Gives the
    seed, which get_worker_info() tells."""
    worker: Any = importlib.import_module("torch.utils.data._utils.worker")
    torch: Any = importlib.import_module("torch")
    base &= _WORD >> 1
    random.seed(base + number)
    torch.default_generator.manual_seed(base + number)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(worker._generate_state(base, number))
    return base + number


def _seed(digest: bytes) -> None:
    random.seed(int.from_bytes(digest[:8], "little"))
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(numpy.frombuffer(digest[8:24], numpy.uint32))
    # Not torch.manual_seed, which looks for every kind of accelerator each time.
    torch: Any = importlib.import_module("torch")
    torch.default_generator.manual_seed(int.from_bytes(digest[24:], "little") >> 1)
