"""A picture that takes seconds to decode and a moment to make, for tests of one slow sample. Holds no tests.

The file is small: rows repeat after a block, and a deflate stream may be put together of copies of one
flushed block. Decoding cannot use that: every row is inflated and unfiltered anew with the costliest filter.
"""

import os
import pathlib
import struct
import zlib

ROWS = 50  # of a block
SIDE = 12_500  # 2 to 3 s of work, and within the default of dataset.max_pixels
PAETH = b"\4"  # a row's filter


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_slow_png(path, side=SIDE, seed=b"slow"):
    """Writes a colour PNG of side x side pixels; the same arguments give the same bytes. `side` is a multiple
    of 50. Overwrites what is there; raises OSError when it cannot."""
    if side % ROWS:
        raise ValueError(f"side must be a multiple of {ROWS}")
    noise = zlib.crc32(seed).to_bytes(4, "big") * (3 * side // 4 + 1)
    block = (PAETH + noise[:3 * side]) * ROWS
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)
    checksum = 1
    for _ in range(side // ROWS):
        checksum = zlib.adler32(block, checksum)
    data = b"\x78\xda" + piece * (side // ROWS) + deflate.flush(zlib.Z_FINISH) + struct.pack(">I", checksum)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path = pathlib.Path(path)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data)
                     + _chunk(b"IEND", b""))
    return path


def write_one_slow(folder, count=2000, slow=None, side=SIDE):
    """An image folder of one class: `count` samples, small pictures but for the one with id `slow` (in the
    middle unless told), which is slow. Returns the slow one's path."""
    home = pathlib.Path(folder) / "class"
    home.mkdir(parents=True)
    slow = count // 2 if slow is None else slow
    small = write_slow_png(home.parent / "small.png", ROWS)
    for number in range(count):
        if number != slow:
            os.link(small, home / f"{number:06d}.png")
    small.unlink()
    return write_slow_png(home / f"{slow:06d}.png", side)
