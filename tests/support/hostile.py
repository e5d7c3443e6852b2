"""A client that breaks every rule it can, until it is killed. Run as a program: SOCKET FOLDER.

Each attack is a thread with connections of its own, which it makes anew when the daemon has hung up on it: it scribbles
over return pages, forges and replays generations, keeps every lease, saturates the bells, connects without a word, sends
what is no message, descriptors that nobody asked for, and orders of items that are no orders. Guests that garble their rings
and slots are processes of their own, for the daemon kills them, if it may. FOLDER is a dataset that it may open. It says
"attacking" on stdout once all of them are under way; then SIGSTOP to its process group makes an idle client of it that
holds all it has, and SIGCONT a hostile one again.
"""

import array
import contextlib
import mmap
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

from support.raw import CLOSE, HEAD, HELLO, ITEMS, OPEN, STATUS, RawClient, Refused
from support.specs import id_spec

GUEST = 17
BATCHES, RETURNS, WAKE, EVENT, CHANNEL, SAMPLES, ROWS = 1, 2, 3, 4, 5, 7, 8
GENERATIONS = 64  # offset in the return page
PAUSE = 0.0005  # between blows: what is tried is rules, not who has more processors


class Attack:
    """A connection, and what is done with it; `blow` again and again."""

    started = 0

    def __init__(self, path, folder):
        self.path = path
        self.folder = folder
        self.random = random.Random(type(self).__name__)

    def begin(self):
        self.client = RawClient(self.path)

    def open_stream(self, slots=4):
        _, self.parts = self.client.open(id_spec(self.folder, batch=2) | {"epochs": 1_000_000}, slots)
        self.page = mmap.mmap(self.parts[RETURNS], 0)
        self.batches = mmap.mmap(self.parts[BATCHES], 0, prot=mmap.PROT_READ)

    def end(self):
        with contextlib.suppress(AttributeError):
            for fd in self.parts.values():
                os.close(fd)
            self.parts = {}
        self.client.close()

    def run(self):
        first = True
        while True:
            # It is hung up on, refused, or short of something itself: then it comes again.
            with contextlib.suppress(OSError, AssertionError, KeyError, ValueError, struct.error):
                self.begin()
                if first:
                    Attack.started += 1
                    first = False
                while True:
                    self.blow()
                    time.sleep(PAUSE)
            with contextlib.suppress(OSError, AttributeError):
                self.end()
            time.sleep(PAUSE)

    def noise(self, most):
        return self.random.randbytes(self.random.randrange(1, most))


class Scribbles(Attack):
    """Random bytes over the whole return page, and now and then honest ones, so that the stream goes on."""

    def begin(self):
        super().begin()
        self.open_stream()

    def blow(self):
        bytes_ = self.noise(256)
        at = self.random.randrange(0, mmap.PAGESIZE - len(bytes_))
        self.page[at:at + len(bytes_)] = bytes_
        os.write(self.parts[WAKE], struct.pack("<Q", 1))


class Forges(Scribbles):
    """Generations that come, that have been, and that never were. None that would truly end a lease: then it would be
    a consumer like others, and get its share of the workers."""

    def blow(self):
        slots, = struct.unpack_from("<I", self.batches, 40)
        words, = struct.unpack_from("<Q", self.batches, 72)
        for slot in range(slots):
            word, = struct.unpack_from("<Q", self.batches, words + 8 * slot)
            forged = (word >> 32) + self.random.choice((-1, 1, 2, 2**31))
            struct.pack_into("<I", self.page, GENERATIONS + 4 * slot, forged & 0xFFFFFFFF)
        os.write(self.parts[WAKE], struct.pack("<Q", 1))


class Keeps(Scribbles):
    """Every lease it gets, in as many streams as it may have."""

    def begin(self):
        Attack.begin(self)
        for _ in range(8):
            self.open_stream(slots=64)

    def blow(self):
        time.sleep(0.1)


class Rings(Scribbles):
    """The bell as often as it can, and the event socket and the wake counter full."""

    def begin(self):
        super().begin()
        struct.pack_into("<I", self.page, 4, 1)  # wants_event
        for fd in (self.parts[WAKE], self.parts[EVENT]):
            os.set_blocking(fd, False)
        with contextlib.suppress(OSError):
            os.write(self.parts[WAKE], struct.pack("<Q", 2**64 - 3))

    def blow(self):
        for fd, what in ((self.parts[WAKE], struct.pack("<Q", 1)), (self.parts[EVENT], b"x" * 200)):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(fd, what)


class Connects(Attack):
    """Without a word; some are kept until there are many."""

    def begin(self):
        self.kept = []
        self.client = None

    def blow(self):
        for _ in range(4):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            with contextlib.suppress(OSError):
                one.connect(self.path)
            if len(self.kept) < 100 and self.random.random() < 0.1:
                self.kept.append(one)
            else:
                one.close()
        if self.random.random() < 0.002:
            self.end()

    def end(self):
        for one in self.kept:
            one.close()
        self.kept = []


class Babbles(Attack):
    """Messages that are cut, too long, of any type, or no messages."""

    def blow(self):
        kind = self.random.randrange(0, 20)
        body = self.noise(2000)
        choice = self.random.randrange(5)
        raw = self.client.socket
        if choice == 0:
            raw.send(body)
        elif choice == 1:
            self.client.send(kind, 3, body)
        elif choice == 2:
            raw.send(HEAD.pack(self.random.randrange(2**32), 1, 0, kind, 1) + body)
        elif choice == 3:
            with contextlib.suppress(OSError):
                raw.send(HEAD.pack(70000, 1, 0, OPEN, 1) + bytes(70000 - HEAD.size))
        else:
            self.client.send(OPEN, 1, struct.pack("<IIII", 1, 0, len(body), 7) + body)


class Gives(Attack):
    """Descriptors that nobody asked for, one or many."""

    def begin(self):
        super().begin()
        self.pipe = os.pipe()

    def blow(self):
        fds = array.array("i", [self.pipe[self.random.randrange(2)]] * self.random.choice((1, 2, 5, 100, 250)))
        kind = self.random.choice((HELLO, STATUS, CLOSE, OPEN, ITEMS))
        self.client.socket.sendmsg([HEAD.pack(HEAD.size, 1, 0, kind, 1)],
                                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])

    def end(self):
        for fd in self.pipe:
            os.close(fd)
        super().end()


class Orders(Attack):
    """Orders of items that are too short, too long, or of parts that do not follow."""

    def blow(self):
        items = range(self.random.choice((0, 1, 10, 512, 20000)))
        count = self.random.choice((0, len(items), len(items), len(items) + 1, 2**25, 2**63))
        self.client.send_items(items, count=count, has_hints=self.random.randrange(2),
                               part_bytes=self.random.choice((8, 12, 4096, 60000)) if len(items) < 1000 else 60000)
        if self.random.random() < 0.3:
            self.client.send(ITEMS, 0, struct.pack("<QII", count, 0, self.random.randrange(1, 2**32)))
        with contextlib.suppress(Refused):
            for fd in self.client.open(items_spec(max(1, min(count, 10**6)), 0xBAD), slots=1)[1].values():
                os.close(fd)


def items_spec(count, crew):
    return {"dataset": {"kind": "items", "count": count, "name": "hostile", "crew": f"{crew:016x}", "epoch": 0},
            "rows": [{"name": "x", "dtype": "uint8", "shape": [64]}], "batch": {"size": 2, "last": "keep"},
            "order": {"shuffle": False}}


class Garbles(Attack):
    """A guest of its own crew that writes random bytes over its rings, its slots and its batches."""

    def begin(self):
        super().begin()
        crew = self.random.randrange(1, 2**63)
        self.client.send_items(range(1000))
        _, self.parts = self.client.open(items_spec(1000, crew))
        self.guest = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.guest.settimeout(5)
        self.guest.connect(self.path)
        self.guest.send(HEAD.pack(HEAD.size + 72, 1, 3, HELLO, 0) + struct.pack("<II64s", 3, 0, b"guest"))
        self.guest.recv(1000)
        self.guest.send(HEAD.pack(HEAD.size + 16, 1, 3, GUEST, 0) + struct.pack("<QII", crew, 1, 0))
        self.maps = []
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and len(self.maps) < 3:
            data, fds, _, _ = socket.recv_fds(self.guest, 65536, 1)
            for fd in fds:
                if struct.unpack_from("<QI", data, HEAD.size)[1] in (CHANNEL, SAMPLES, ROWS):
                    self.maps.append(mmap.mmap(fd, 0))
                os.close(fd)

    def blow(self):
        page = self.random.choice(self.maps)
        bytes_ = self.noise(128)
        at = self.random.randrange(0, min(len(page), self.random.choice((512, len(page)))) - len(bytes_))
        page[at:at + len(bytes_)] = bytes_
        if self.random.random() < 0.01:
            raise OSError("begin anew")

    def end(self):
        self.guest.close()
        super().end()


ATTACKS = [Scribbles, Forges, Keeps, Rings, Connects, Babbles, Gives, Orders]


def keep_a_guest(path, folder):
    """One after the other."""
    while True:
        with contextlib.suppress(OSError):  # no process to be had just now
            subprocess.run([sys.executable, "-m", "support.hostile", path, folder, "guest"], stderr=subprocess.DEVNULL)
        time.sleep(0.05)


def main():
    path, folder, *guest = sys.argv[1:]
    if guest:
        Garbles(path, folder).run()
    threading.Thread(target=keep_a_guest, args=(path, folder), daemon=True).start()
    for attack in ATTACKS:
        threading.Thread(target=attack(path, folder).run, daemon=True).start()
    while Attack.started < len(ATTACKS):
        time.sleep(0.01)
    print("attacking", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
