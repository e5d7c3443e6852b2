"""A descriptor of a file system that never answers, sent with a message: to close it would stop the daemon for ever,
beyond SIGKILL. So the daemon takes none at all."""

import os

import fuse_folder
import pytest
import test_card
from support.capi import Client
from support.raw import CLOSE, HELLO, ITEMS, OPEN, REPORT, STATUS, TRACE, RawClient

pytest.importorskip("fusepy", reason="python3-fusepy is not installed")

GUEST, UNKNOWN = 17, 99
GUEST_ROLE = 3


@pytest.fixture
def trap(open_folder):
    """A descriptor whose close does not return, to whoever closes it, before the test is over."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    test_card.id_pictures(open_folder, 1)
    with fuse_folder.Mount(open_folder) as mounted:
        if mounted.trouble is not None:
            pytest.skip(f"cannot mount: {mounted.trouble.strip()[-200:]}")
        fd = os.open(next(mounted.folder.rglob("*.png")), os.O_RDONLY)
        mounted.rule("all", on="flush", sleep=True)
        yield mounted, fd
        mounted.wake()
        os.close(fd)


@pytest.mark.parametrize("kind", [HELLO, STATUS, OPEN, CLOSE, REPORT, TRACE, ITEMS, UNKNOWN])
def test_it_holds_up_nobody(daemon, trap, kind):
    mounted, fd = trap
    client = RawClient(daemon.socket, role=None if kind == HELLO else 1)
    client.send(kind, 1, b"\0" * 72, fd=fd)
    with Client(daemon.socket) as other:
        assert other.status()["sessions"]
    client.close()
    with Client(daemon.socket) as other:
        other.status()
    assert mounted.asleep() == 0


def test_a_guests_holds_up_nobody_either(daemon, trap):
    mounted, fd = trap
    guest = RawClient(daemon.socket, role=GUEST_ROLE)
    guest.send(GUEST, 1, b"\0" * 16, fd=fd)
    with Client(daemon.socket) as other:
        other.status()
    guest.close()
    assert mounted.asleep() == 0
