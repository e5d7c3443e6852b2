"""hand_over.py ours|torch WORKERS SCALE: what a batch costs that takes no time to make; prints one JSON line.

Called by bench/transport.py. The data set returns memory that it has already got, so that only the way from
the worker to the consumer is measured: its processes, queues, copies and page faults. Ways:

  images  one image of 3 x 224 x 224 float32 an item, batches of 64 by the default collate
  batch   the whole batch of 64, always the same tensor, batch_size=None; torch moves it to shared memory once
          and hands over a descriptor from then on: what the consumer holds is the worker's own memory
  fresh   the same, a new tensor each time, as a data set that makes something would return

The consumer takes batches as fast as they come and reads one number of each page. Counted after WARM batches:
batches a second, CPU of this process and all below it (workers, daemon) by batch, and the wait for each.
SCALE multiplies the number of batches. Fails with the loader's own error.
"""

import contextlib
import json
import pathlib
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "peers"), str(HERE.parent.parent / "tests")]

from timing import tree_cpu_seconds  # noqa: E402  (not beside this file: the path comes first)

BATCH, SHAPE = 64, (3, 224, 224)
BATCH_BYTES = BATCH * 3 * 224 * 224 * 4
WARM = 20
COUNTS = {"images": 40, "batch": 200, "fresh": 40}  # batches that are counted
NUMBERS_A_PAGE = 1024


class Images(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count
        self.image = torch.rand(SHAPE)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.image


class Batches(torch.utils.data.Dataset):
    def __init__(self, count, fresh):
        self.count = count
        self.fresh = fresh
        self.batch = torch.rand(BATCH, *SHAPE)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.batch.clone() if self.fresh else self.batch


def dataset_of(way, batches):
    """(data set, batch size)"""
    if way == "images":
        return Images(BATCH * batches), BATCH
    return Batches(batches, way == "fresh"), None


def look(batch):
    """One number of each page."""
    return float(batch.reshape(-1)[::NUMBERS_A_PAGE].sum())


def measure(loader, count):
    """Batches a second, CPU microseconds a batch, waits in milliseconds."""
    batches = iter(loader)
    for _ in range(WARM):
        look(next(batches))
    waits = []
    begin, cpu = time.perf_counter(), tree_cpu_seconds()
    for _ in range(count):
        asked = time.perf_counter()
        batch = next(batches)
        waits.append(1000 * (time.perf_counter() - asked))
        look(batch)
        del batch
    seconds, cpu = time.perf_counter() - begin, tree_cpu_seconds() - cpu
    return {"batches_s": count / seconds, "cpu_us": 1e6 * cpu / count, "waits_ms": waits}


def with_torch(way, workers, count):
    dataset, size = dataset_of(way, WARM + count + 8 * workers)  # work does not run out while it is counted
    loader = torch.utils.data.DataLoader(dataset, batch_size=size, num_workers=workers,
                                         persistent_workers=True)
    return measure(loader, count)


def with_ours(way, workers, count, socket):
    from speedyloader.torch import DataLoader

    dataset, size = dataset_of(way, WARM + count + 8 * workers)
    opaque = {} if size else {"max_item_bytes": BATCH_BYTES + 65536}
    with DataLoader(dataset, batch_size=size, num_workers=workers, socket=socket, **opaque) as loader:
        return measure(loader, count)


def main():
    kind, workers, scale = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    counts = {way: max(1, int(scale * count)) for way, count in COUNTS.items()}
    if kind == "torch":
        print(json.dumps({way: with_torch(way, workers, count) for way, count in counts.items()}))
        return
    from support import daemon

    with contextlib.closing(daemon.Daemons()) as daemons:
        socket = daemons.start(workers=1, memory="4GiB").socket
        told = {way: with_ours(way, workers, count, socket) for way, count in counts.items()}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
