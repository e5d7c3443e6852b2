"""short_reads.py FOLDER MOUNTPOINT: a file system that shows a folder and reads at most 1,000 bytes a time.

Direct I/O, because through the page cache the kernel takes a short answer for the end of the file. Prints
"ready" when mounted and runs until it is unmounted (URG-03).
"""

import errno
import os
import sys

import fusepy

MOST = 1000


class ShortReads(fusepy.Operations):
    def __init__(self, folder):
        self.folder = folder

    def init(self, path):
        print("ready", flush=True)

    def getattr(self, path, fh=None):
        try:
            found = os.lstat(self.folder + path)
        except OSError as error:
            raise fusepy.FuseOSError(error.errno or errno.EIO) from error
        return {key: getattr(found, key) for key in ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.folder + path)]

    def open(self, path, flags):
        return os.open(self.folder + path, os.O_RDONLY)

    def release(self, path, fh):
        os.close(fh)

    def read(self, path, size, offset, fh):
        return os.pread(fh, min(size, MOST), offset)


if __name__ == "__main__":
    fusepy.FUSE(ShortReads(sys.argv[1]), sys.argv[2], foreground=True, nothreads=True, direct_io=True)
