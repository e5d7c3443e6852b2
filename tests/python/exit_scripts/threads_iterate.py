"""Daemon threads take batches and copies of them as fast as they can while the interpreter ends."""
import sys
import threading
import time

import speedyloader as sl


def iterate(loader, taken):
    while True:
        for batch in loader:
            batch.copy()
            taken.set()


for _ in range(3):
    taken = threading.Event()
    loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8")
    threading.Thread(target=iterate, args=(loader, taken), daemon=True).start()
    taken.wait()
print(time.monotonic(), flush=True)
