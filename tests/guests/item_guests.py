"""For the tests with guest workers: specs of items, and guests as processes of their own."""

import secrets
import subprocess

from support.capi import BUILD

GUEST = BUILD / "tests" / "item_guest"
WORDS = 8  # 64 bytes: written in place


def item_spec(count, crew, batch=16, epoch=0, policy="strict", last="keep", errors=None, capacity=None, collate=None):
    """Rows of item_guest: fixed ones, or opaque ones of up to `capacity` bytes, and a batch of up to `collate`."""
    fixed = [{"name": "x", "dtype": "int64", "shape": [2, WORDS // 2]}, {"name": "epoch", "dtype": "int64", "shape": []}]
    rows = fixed if capacity is None else [{"name": "item", "dtype": "bytes", "capacity": capacity}]
    made = {"dataset": {"kind": "items", "count": count, "name": "Numbers", "crew": crew, "epoch": epoch},
            "rows": rows, "batch": {"size": batch, "last": last}, "epochs": 1,
            "order": {"shuffle": False, "seed": 7, "policy": policy}}
    if errors is not None:
        made["errors"] = errors
    if collate is not None:
        made["collate"] = {"capacity": collate}
    return made


class Guests:
    """The guests of one crew; close() ends them."""

    def __init__(self, daemons, daemon, workers=2):
        self.crew = secrets.token_hex(8)
        self._environment = daemons.environment
        self.daemon = daemon
        self.workers = workers
        self.processes = []

    def start(self, *flags, wrap=(), attach=True, number=1):
        for _ in range(number):
            command = [*wrap, GUEST, self.daemon.socket, self.crew, self.workers, *flags]
            self.processes.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                                                   env=self._environment, stdout=subprocess.PIPE,
                                                   stderr=subprocess.PIPE))
        for process in self.processes[-number:]:
            if attach:
                assert process.stdout.readline() == "attached\n", process.stderr.read()
        return self.processes[-number:]

    def ends(self, seconds=10):
        """How each has ended, by its own words: once they all have."""
        said = [process.communicate(timeout=seconds) for process in self.processes]
        return [out.split()[-1] if out.split() else "" for out, _ in said]

    def status(self):
        """The crew in the daemon's status, or None."""
        return next((crew for crew in self.daemon.status()["crews"] if crew["crew"] == self.crew), None)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
