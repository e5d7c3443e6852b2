"""Batches, their tensors and views of them live at the end; with a second argument the loader is closed."""
import sys
import time

import numpy
import speedyloader as sl

loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8", slots=8)
one, two, three, four, *_ = loader
tensor, view, array = two["image"], memoryview(three["label"])[1:], numpy.asarray(four["image"])[:, 0]
if len(sys.argv) > 2:
    loader.close()
print(time.monotonic(), flush=True)
