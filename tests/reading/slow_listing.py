"""A file system whose listing waits, for test_scans.py: slow_listing.py MOUNTPOINT GATE COUNT.

Folder `c` holds COUNT empty pictures. Listing it waits until the file GATE exists. Each listing adds a line
to GATE.listed. It prints "ready" when mounted and runs until it is unmounted.
"""

import errno
import os
import stat
import sys
import time

import fusepy


class SlowListing(fusepy.Operations):
    def __init__(self, gate, count):
        self.gate = gate
        self.names = [f"{number}.jpg" for number in range(count)]

    def init(self, path):
        print("ready", flush=True)

    def getattr(self, path, fh=None):
        times = {"st_mtime": 1_000_000_000.25, "st_ctime": 1_000_000_000.25}
        if path in ("/", "/c"):
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2, **times}
        if path.startswith("/c/") and path[3:] in self.names:
            return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_size": 0, **times}
        raise fusepy.FuseOSError(errno.ENOENT)

    def readdir(self, path, fh):
        if path == "/":
            return [(".", {"st_mode": stat.S_IFDIR}, 0), ("c", {"st_mode": stat.S_IFDIR}, 0)]
        with open(self.gate + ".listed", "a", encoding="ascii") as file:
            print(path, file=file)
        while not os.path.exists(self.gate):
            time.sleep(0.005)
        return [(name, {"st_mode": stat.S_IFREG}, 0) for name in self.names]


if __name__ == "__main__":
    fusepy.FUSE(SlowListing(sys.argv[2], int(sys.argv[3])), sys.argv[1], foreground=True, nothreads=False)
