"""A small faulty file system, for test_fuse.py: fuse_server.py MOUNTPOINT direct|cached.

The name of a file says how its reads go. It prints "ready" when mounted and runs until it is unmounted.
"""
import errno
import os
import stat
import sys

import fusepy

SIZE = 1_000_003
CONTENT = b"".join(i.to_bytes(4, "little") for i in range(SIZE // 4 + 1))[:SIZE]
EIO_FROM = 500_000
HELD_BY_CUT = 300_000


class Faulty(fusepy.Operations):
    def __init__(self):
        self.reads = {}

    def init(self, path):
        print("ready", flush=True)

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        name = path[1:]
        if name not in ("whole", "short", "eio", "eio_once", "stale", "cut"):
            raise fusepy.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_size": SIZE}

    def read(self, path, size, offset, fh):
        name = path[1:]
        self.reads[name] = self.reads.get(name, 0) + 1
        if name == "stale":
            raise fusepy.FuseOSError(errno.ESTALE)
        if name == "eio" and offset + size > EIO_FROM:
            raise fusepy.FuseOSError(errno.EIO)
        if name == "eio_once" and self.reads[name] == 1:
            raise fusepy.FuseOSError(errno.EIO)
        content = CONTENT[:HELD_BY_CUT] if name == "cut" else CONTENT
        return content[offset:offset + (min(size, 1000) if name == "short" else size)]


if __name__ == "__main__":
    direct = sys.argv[2] == "direct"
    fusepy.FUSE(Faulty(), sys.argv[1], foreground=True, nothreads=True, direct_io=direct)
