"""A user whose files never answer waits alone, also where others' files lie on the same mount (LDR-13).

Over a FUSE mount with faults on demand (reader/fuse_folder.py); skipped, with the reason, where there is none.
"""

import os
import select

import fuse_folder
import pytest
import test_card
from support.daemon import wait_for
from support.specs import id_spec
from users import ALICE, BOB, Failed

pytest.importorskip("fusepy", reason="python3-fusepy is not installed")

ALICES, BOBS = 100, 12
NEVER = ("--read-timeout", "3600 s")


@pytest.fixture
def mount(open_folder):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    for user, count in (("alice", ALICES), ("bob", BOBS)):
        test_card.id_pictures(open_folder / user, count)
    with fuse_folder.Mount(open_folder) as mounted:
        if mounted.trouble is not None:
            pytest.skip(f"cannot mount: {mounted.trouble.strip()[-200:]}")
        yield mounted


def finish(peer):
    """What its stream's end gives; fails where it does not come for a minute."""
    peer.begin("finish")
    readable, _, _ = select.select([peer.process.stdout], [], [], 60)
    assert readable, f"user {peer.uid} waits for files that are not its own"
    return peer.end()


@pytest.mark.parametrize("back_end", ["uring", "threads"])
@pytest.mark.parametrize("call", ["open", "read"])
def test_whose_files_hang_holds_up_nobody_else_on_the_same_mount(service, peers, mount, call, back_end):
    daemon = service("--io", back_end, *NEVER)
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    mount.rule("all", on=call, sleep=True, under="/alice")
    alice.open(id_spec(mount.folder / "alice", batch=10))
    wait_for(lambda: mount.asleep() >= 4, 30)  # as many as she has threads there
    for _ in range(2):
        bob.open(id_spec(mount.folder / "bob", batch=4))
        assert sorted(finish(bob)["ids"]) == list(range(BOBS))
    mount.wake()
    assert sorted(finish(alice)["ids"]) == list(range(ALICES))


def mix_of_empty_folders(mount, name, count):
    folders = [mount.folder / "alice" / f"{name}_{number}" for number in range(count)]
    for folder in folders:
        (mount.source / folder.relative_to(mount.folder)).mkdir()
    parts = [{"kind": "image_folder", "path": str(folder)} for folder in folders]
    return id_spec(folders[0], batch=4) | {"dataset": {"kind": "mix", "parts": parts}}


def test_a_user_whose_scans_hang_holds_up_no_other_users(service, peers, mount):
    daemon = service()
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    mount.rule("all", on="list", sleep=True, under="/alice")
    alice.begin("open", mix_of_empty_folders(mount, "folder", 20))
    wait_for(lambda: mount.asleep() == 4, 30)  # as many as one user has at once in the first five seconds
    bob.open(id_spec(mount.folder / "bob", batch=4))
    assert mount.asleep() == 4  # its scan has begun before more of hers
    assert finish(bob)["failures"] == []
    mount.wake()
    with pytest.raises(Failed):
        alice.end()  # the folders are empty


def test_a_user_may_have_so_many_folders_wait_to_be_scanned(service, peers, mount):
    daemon = service()
    mount.rule("all", on="list", sleep=True, under="/alice")
    alices = [peers(daemon, ALICE) for _ in range(5)]
    for number, alice in enumerate(alices[:4]):
        alice.begin("open", mix_of_empty_folders(mount, f"set_{number}", 64))
    wait_for(lambda: sum(scan["clients"] for scan in daemon.status()["scans"]) == 4 * 64, 30)
    with pytest.raises(Failed, match="folders that wait to be scanned, and may have 256") as refused:
        alices[4].open(mix_of_empty_folders(mount, "one_more", 64))
    assert refused.value.code == "SL_E_BUDGET"
    bob = peers(daemon, BOB)
    bob.open(id_spec(mount.folder / "bob", batch=4))
    assert finish(bob)["failures"] == []
    mount.wake()
    for alice in alices[:4]:
        with pytest.raises(Failed):
            alice.end()  # the folders are empty


def test_so_many_hung_files_of_one_user_leave_the_mount_in_service_for_others(service, peers, mount):
    daemon = service("--read-timeout", "200ms")
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    mount.rule("all", on="read", sleep=True, under="/alice")
    alice.open(id_spec(mount.folder / "alice", batch=10,
                       errors={"policy": "placeholder", "max_failures": 10**6, "max_rate": 1.0}))
    assert {kind for kind, _ in finish(alice)["failures"]} == {"timeout"}
    assert 8 <= mount.asleep() <= 12  # beyond, none of hers is tried there
    bob.open(id_spec(mount.folder / "bob", batch=4))
    assert finish(bob)["failures"] == []
