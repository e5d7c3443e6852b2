"""IterableDatasets for the tests of speedyloader.torch; guests that are spawned import this.

Each is sharded by what get_worker_info() says, as torch wants it.
"""

import itertools
import os
import random
import signal
import time

import numpy as np
import torch


class Shard(torch.utils.data.IterableDataset):
    """Shard k has `lengths[k]` items: (k, number, random numbers of every generator that is seeded)."""

    def __init__(self, *lengths):
        self.lengths = lengths
        self.epoch = None

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for number in range(self.lengths[info.id]):
            yield self.item(info.id, number)

    def item(self, shard, number):
        return shard, number, random.random(), np.random.rand(2), torch.rand(3)


class Sized(Shard):
    """Items below `count` in as many shards as there are guests."""

    def __init__(self, count):
        super().__init__(count)

    def __len__(self):
        return self.lengths[0]

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        number, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(number, len(self), workers))


class Stumbling(Shard):
    """In the last shard something happens at one item; `goes_on`: the iterator can be asked again."""

    def __init__(self, what, at, *lengths, goes_on=False):
        super().__init__(*lengths)
        self.what, self.at, self.goes_on = what, at, goes_on

    def item(self, shard, number):
        if shard == len(self.lengths) - 1 and number == self.at:
            if self.what == "raises":
                raise LookupError(f"no such thing as {number}")
            if self.what == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "waits":
                time.sleep(3600)
            if self.what == "large":
                return shard, number, "x" * (1 << 20)
            if self.what == "unpicklable":
                return shard, number, lambda: None
        return shard, number, "x"

    def __iter__(self):
        if self.what == "does not begin":
            raise LookupError("no such thing as an iterator")
        shard = torch.utils.data.get_worker_info().id
        return map(self.item, itertools.repeat(shard), range(self.lengths[shard])) if self.goes_on \
            else super().__iter__()


class Told(Shard):
    """Items that say which epoch their data set has been told, and how often it was iterated over."""

    def __init__(self, *lengths):
        super().__init__(*lengths)
        self.begun = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.begun += 1
        return super().__iter__()

    def item(self, shard, number):
        return shard, number, self.epoch, self.begun, torch.utils.data.get_worker_info().seed


class Endless(torch.utils.data.IterableDataset):
    """Counts, in steps of as many as there are guests; what it gives grows."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for number in itertools.count(info.id, info.num_workers):
            yield torch.full((1 + number * 1000,), number)


class Uneven(torch.utils.data.IterableDataset):
    """One shard, of which one item takes long; `made` counts its items. For guests that are forked."""

    def __init__(self, count, slow, seconds=0.2):
        self.count, self.slow, self.seconds = count, slow, seconds
        self.made = torch.multiprocessing.get_context("fork").Value("q", 0)

    def __iter__(self):
        self.made.value = 0
        for number in range(self.count):
            if number == self.slow:
                time.sleep(self.seconds)
            self.made.value = number + 1
            yield number
