"""A handler that runs at the end takes one more batch, saves the position and closes the loader."""
import atexit
import sys
import time

import speedyloader as sl


@atexit.register
def finish():
    print(time.monotonic(), next(iterator).index, loader.state_dict()["batch"], flush=True)
    loader.close()


loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8")
iterator = iter(loader)
next(iterator)
