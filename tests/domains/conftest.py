"""Fixtures of the tests of trust domains: a daemon of one user, clients of others."""

import os
import subprocess

import pytest
from support.daemon import PROGRAMS
from support.users import as_user, root
from users import ALICE, BOB, HERE, SERVICE, Peer


@pytest.fixture
def service(daemons):
    """service(*flags, **options): a daemon that runs as nobody of the tests' users and serves all."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a daemon and its clients as different users")
    for path in (PROGRAMS / "speedyloaderd", HERE / "other_user.py"):
        if subprocess.run([*as_user(SERVICE), "test", "-r", path]).returncode != 0:
            pytest.skip(f"{path} is closed to other users")

    config = daemons.folder / "everything.toml"
    # The tests ask for the status without a pause.
    config.write_text(root("/", ALICE) + root("/", BOB) + root("/", 0) + "[limits]\nconnects = 0\n")

    def start(*flags, **options):
        daemon = daemons.start("--config", config, *flags, wrap=as_user(SERVICE), **options)
        daemon.socket.chmod(0o666)
        return daemon

    return start


@pytest.fixture
def peers(daemons):
    """peers(daemon, uid): a client of that user."""
    made = []

    def start(daemon, uid):
        made.append(Peer(daemon, uid, daemons.environment))
        return made[-1]

    yield start
    for peer in made:
        if peer.process.poll() is None:
            peer.leave()
