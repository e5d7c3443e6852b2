"""Loaders in a global and in cycles with an object that closes them in its finaliser, at the very end."""
import sys
import time

import speedyloader as sl


class Trainer:
    def __init__(self, loader):
        self.loader, self.iterator, self.me = loader, iter(loader), self
        self.batch = next(self.iterator)

    def __del__(self):
        self.loader.stats(), self.loader.close()


loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8")
trainer, sys.trainer = Trainer(loader), Trainer(sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4))
print(time.monotonic(), flush=True)
