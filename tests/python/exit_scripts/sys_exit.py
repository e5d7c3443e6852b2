"""sys.exit inside the loop."""
import sys
import time

import speedyloader as sl

loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8")
for batch in loader:
    print(time.monotonic(), flush=True)
    sys.exit(7)
