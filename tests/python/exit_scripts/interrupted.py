"""Waits for a batch until Ctrl-C."""
import os
import sys

import speedyloader as sl

loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8")
iterator = iter(loader)
print(os.getpid(), flush=True)
next(iterator)
