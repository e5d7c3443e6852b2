"""A daemon that serves one root to one group, and the folder beside the root that it does not serve."""

import os
import shutil

import pytest
from support.daemon import PROGRAMS
from support.users import root

import test_card


@pytest.fixture(scope="session")
def foreign_users():
    if os.geteuid() != 0:
        pytest.skip("only root can be other users")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    return PROGRAMS


@pytest.fixture
def tree(open_folder):
    """root/train: 12 id pictures in 3 classes; secret/: others, which everybody could read."""
    test_card.id_pictures(open_folder / "root" / "train", 12, classes=3, size=(2, 2))
    test_card.id_pictures(open_folder / "secret", 4, classes=2, size=(2, 2))
    return open_folder


@pytest.fixture
def serve(daemons, foreign_users):
    """serve(text of a configuration file, flags...): a daemon that every user can connect to."""

    def start(text, *flags, **options):
        file = daemons.folder / "speedyloader.toml"
        file.write_text(text)
        daemon = daemons.start("--config", file, *flags, **options)
        daemon.socket.chmod(0o666)
        daemon.config = file
        return daemon

    return start


@pytest.fixture(params=["uring", "threads"])
def backend(request):
    return request.param


@pytest.fixture
def served(serve, tree, backend):
    """The daemon of `tree`, with either back end."""
    return serve(root(tree / "root"), "--io", backend)
