"""A daemon thread waits for a batch while the interpreter ends, and that takes a while."""
import sys
import threading
import time

import speedyloader as sl


class LateEnd:
    def __del__(self, sleep=time.sleep):
        sleep(0.2)


loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8")
iterator = iter(loader)
thread = threading.Thread(target=lambda: next(iterator), daemon=True)
thread.start()
sys.late_end = LateEnd()  # what hangs on sys goes last, when no thread may run Python any more
print(thread.native_id, flush=True)
sys.stdin.readline()
print(time.monotonic(), flush=True)
