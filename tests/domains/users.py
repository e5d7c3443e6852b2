"""Clients that run as different users, and what a process has of which memory, for the tests of trust domains.

Only root can make them. A call that fails raises Failed.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

from support.capi import BUILD
from support.users import as_user

HERE = pathlib.Path(__file__).parent
SERVICE, ALICE, BOB = 61_000, 61_001, 61_002


class Failed(Exception):
    """What a call of a peer's failed with; `code` is its status's name."""

    def __init__(self, told):
        super().__init__(told["error"])
        self.code = told["code"]


class Peer:
    """A client that runs as some user; its calls are those of other_user.py."""

    def __init__(self, daemon, uid, environment):
        self.uid = uid
        command = [*as_user(uid), sys.executable, "-B", str(HERE / "other_user.py"), str(daemon.socket)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment | {"SL_BUILD_DIR": str(BUILD)})

    def begin(self, *request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def end(self):
        told = json.loads(self.process.stdout.readline())
        if "error" in told:
            raise Failed(told)
        return told["answer"]

    def __getattr__(self, verb):
        def call(*arguments):
            self.begin(verb, *arguments)
            return self.end()

        return call

    def leave(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def workers_of(daemon, uid):
    """The pids of a user's worker processes; the status is asked for as root, who sees all."""
    return [worker["pid"] for worker in daemon.status()["workers"] if worker["uid"] == uid]


def memory_of(pid):
    """{inode: name} of the memfds that a process has mapped or has descriptors of."""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        mapped = re.match(r"\S+ \S+ \S+ \S+ (\d+)\s+/memfd:(\S+)", line)
        if mapped:
            found[int(mapped[1])] = mapped[2]
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        leads_to = os.readlink(entry)
        if leads_to.startswith("/memfd:"):
            found[entry.stat().st_ino] = leads_to
    return found
