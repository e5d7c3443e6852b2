"""Programs with guest workers that end in every way, for test_guest_ends.py: guest_ends.py END...

PyTorch is imported once; each END is a fork that makes a loader, ends, and leaves the interpreter as any program
does. Prints a line of JSON for each: its exit status, the seconds from its last act to its end, what it said.
"""

import gc
import json
import os
import signal
import sys
import tempfile
import time

import torch
from guest_items import Misbehaving, Squares
from speedyloader.torch import DataLoader

kept = []  # what the interpreter finds when it ends


class Interrupting(Squares):
    """Item 7 sends its client a Ctrl-C, and is never made."""

    def __getitem__(self, index):
        if index == 7:
            last_act()
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(3600)
        return super().__getitem__(index)


def last_act():
    """Notes the time: what comes now is the end."""
    os.pwrite(told, str(time.monotonic()).encode().ljust(40), 0)


def loop(dataset, batches=3, **options):
    """A loader that the interpreter keeps, as far as so many batches."""
    kept.append(DataLoader(dataset, batch_size=4, num_workers=2, **options))
    kept.append(iter(kept[0]))
    return [next(kept[1]) for _ in range(batches)]


def end(way):
    if way == "never iterated":
        kept.append(DataLoader(Squares(), batch_size=4))
    elif way == "interrupted":
        loop(Interrupting())
    elif way == "busy guests":
        loop(Misbehaving("waits", at=20))
    elif way == "held":
        kept.extend(loop(Squares(), 8))
    else:
        loop(Squares())
    last_act()
    if way == "exception":
        raise ZeroDivisionError("on purpose")
    if way == "exit 7":
        sys.exit(7)
    if way == "_exit 3":
        os._exit(3)
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


gc.freeze()  # so that no end goes through all that is imported
for way in sys.argv[1:]:
    with tempfile.TemporaryFile() as times, tempfile.TemporaryFile("w+") as words:
        told = times.fileno()
        child = os.fork()
        if child == 0:
            os.dup2(words.fileno(), 2)
            end(way)
            break
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ended = time.monotonic()
        begun = float(os.pread(told, 40, 0))
        words.seek(0)
        print(json.dumps([way, status, ended - begun, words.read()]), flush=True)
