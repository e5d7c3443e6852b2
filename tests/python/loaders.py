"""What the tests of `sl.Loader` and of its errors share: loaders of tiny pictures, what is in their batches.

The pictures are those whose colour is their sample id. Any failure is the package's own.
"""

import speedyloader as sl

COUNT = 40  # pictures
WAIT_S = 60  # for a batch that does not come
TINY = (sl.Resize((2, 2)),)


def open_in_order(daemon, folder, transforms=TINY, **options):
    """One epoch of a folder in the order of its names, in batches of 8, with the incomplete one."""
    options = {"batch_size": 8, "last": "keep", "shuffle": False, "dtype": "uint8", "timeout": WAIT_S,
               "epochs": 1, "socket": daemon.socket} | options
    return sl.Loader(folder, transforms, **options)


def ids(batch):
    """Sample ids of its rows."""
    return batch.numpy("sample_id").tolist()


def content(batches):
    """What must be equal for two runs to be the same."""
    return [(batch.epoch, batch.index, ids(batch), batch.numpy("image").tobytes()) for batch in batches]


def same(a, b):
    """Whether two exceptions are the same, as one that crossed a process border is."""
    return type(a) is type(b) and a.args == b.args and str(a) == str(b) and vars(a) == vars(b)
