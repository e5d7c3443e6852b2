"""loader.py SET PLACE COUNT BATCH WORKERS ours|torch strict|ready|in_order|unordered: one loader of
bench/dropin_tail.py, driven by bench/paced/server.py.

Both get the same data set object, as many workers, shuffle, torch's default collate and incomplete batches
dropped; torch's workers are persistent and have 2 batches of prefetch each, its default. Ours has a daemon of
its own below this process, so that its CPU time is counted; the daemon's own workers have nothing to do. Both
go from epoch to epoch by asking for the next iterator, as a training loop does. The programs are those below
$SL_BUILD_DIR. Fails with the loader's own error.
"""

import contextlib
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "paced"), str(HERE.parent.parent / "tests")]

import sets  # noqa: E402  (as is all that is not beside this file: the path comes first)
from server import serve  # noqa: E402


def torch_loader(dataset, batch, workers, order):
    return torch.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True,
                                       num_workers=workers, persistent_workers=True,
                                       in_order=order == "in_order")


@contextlib.contextmanager
def our_loader(dataset, batch, workers, order):
    from speedyloader.torch import DataLoader
    from support import daemon

    with daemon.Daemons() as daemons:
        started = daemons.start(workers=1, memory="4GiB")
        with DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True, num_workers=workers,
                        order=order, socket=started.socket) as loader:
            yield loader


def endless(loader):
    while True:
        yield from loader


def look_at(loader):
    """Fixed rows come without a copy: a set that misses them would measure something else."""
    rows = loader.stats()["rows"]
    if rows != "fixed":
        raise SystemExit(f"loader.py: the rows are {rows}, expected fixed ones")
    return {"guests_lost": len(loader.report()["guests"]["lost"])}


def main():
    name, place, count, batch, workers, kind, order = sys.argv[1:]
    torch.set_num_threads(1)
    dataset = sets.make(name, place, int(count))
    if kind == "torch":
        serve(endless(torch_loader(dataset, int(batch), int(workers), order)))
        return
    with our_loader(dataset, int(batch), int(workers), order) as loader:
        serve(endless(loader), collect=lambda: look_at(loader))


if __name__ == "__main__":
    main()
