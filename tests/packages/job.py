"""job.py FOLDER: one epoch with the installed Python package; prints what came as JSON."""

import json
import sys

import speedyloader as sl

loader = sl.Loader(sl.ImageFolder(sys.argv[1]), [sl.Resize(32), sl.CenterCrop(32)], batch_size=8)
batches = rows = 0
for batch in loader:
    batches += 1
    rows += memoryview(batch["image"]).shape[0]
    del batch
print(json.dumps({"batches": batches, "rows": rows, "file": sl.__file__}))
