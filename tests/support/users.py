"""Other users, for tests of what they may do. Root only: `foreign_users` in tests/rights/conftest.py skips else.

The kernel notes at connect() who a client is, so a test may be somebody else for just that call.
"""

import contextlib
import dataclasses
import os

from support.capi import Client
from support.raw import RawClient


@dataclasses.dataclass(frozen=True)
class User:
    uid: int
    gid: int
    groups: tuple = ()

    def command(self):
        """What goes before a command to run it as this user."""
        groups = ["--clear-groups"] if not self.groups else ["--groups", ",".join(map(str, self.groups))]
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", *groups]

    @contextlib.contextmanager
    def acting(self):
        """This process has the user's effective rights."""
        groups = os.getgroups()
        os.setgroups(self.groups)
        os.setegid(self.gid)
        os.seteuid(self.uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    def client(self, daemon):
        with self.acting():
            return Client(daemon.socket)

    def raw(self, daemon):
        with self.acting():
            return RawClient(daemon.socket)


def as_user(uid):
    """What goes before a command to run it as this user, with a group of the same number and no others."""
    return User(uid, uid).command()


VISION = 50_001  # a group that has no name here, as one of a network's directory
MEMBER = User(40_001, 40_001, (50_000, VISION))
OTHER_MEMBER = User(40_002, 40_002, (VISION,))
STRANGER = User(40_003, 40_003)


def root(path, group=VISION):
    """A section of the daemon's configuration."""
    return f'[[root]]\npath = "{path}"\ngroup = {group}\n'
