"""Fixtures of the Python package's tests: the package of the build tree, daemons for it, private ones too.

`daemon`, `daemons`, `photos`, `few_photos` and `id_set` come from the folder above. A loader that belongs to
a test is given `socket=str(daemon.socket)`, or comes from `make`; one that may start its own daemon needs the
fixture `private_name`.
"""

import multiprocessing
import os
import signal
import sys
import uuid

import pytest
from support.daemon import MARK, PROGRAMS, PYTHON_PACKAGES, Daemons, marked, wait_for

sys.path.insert(0, str(PYTHON_PACKAGES))


def pytest_configure(config):
    # A fork server that is begun imports these once, and not every child of it.
    multiprocessing.set_forkserver_preload(["speedyloader.torch"])
    config.addinivalue_line("filterwarnings", "ignore:.*excessive worker creation:UserWarning")
    config.addinivalue_line("markers", "sanitized: also run under AddressSanitizer; imports no framework")


@pytest.fixture(autouse=True)
def no_settings_of_the_caller(monkeypatch):
    """No daemon of the machine is found by accident."""
    for name in [name for name in os.environ if name.startswith("SPEEDYLOADER_") and name != MARK]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared_daemon():
    """One daemon with two workers for every test that leaves it as it was; its `socket` is a path."""
    with Daemons() as made:
        yield made.start()


@pytest.fixture
def folder(id_set):
    """A folder of id pictures, for `make`."""
    from loaders import COUNT  # here, for not every test of this folder needs the build tree's package

    return id_set(COUNT)


@pytest.fixture
def make(shared_daemon, folder):
    """make(...): a loader of the id pictures, of batches of 8 in a shuffled order, ended with the test."""
    import speedyloader as sl
    from loaders import TINY, WAIT_S

    made = []

    def begin(dataset=folder, transforms=TINY, **options):
        defaults = {"batch_size": 8, "dtype": "uint8", "timeout": WAIT_S, "socket": str(shared_daemon.socket)}
        made.append(sl.Loader(dataset, transforms, **defaults | options))
        return made[-1]

    yield begin
    for loader in made:
        loader.close()


@pytest.fixture
def private_name(monkeypatch):
    """Lets this process and its children start private daemons of the build tree, apart from all others.

    Afterwards those that still run are ended, and nothing of them may be left.
    """
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("SPEEDYLOADER_PRIVATE_NAME", mark[:12])
    monkeypatch.setenv("SPEEDYLOADER_DAEMON", str(PROGRAMS / "speedyloaderd"))
    yield mark[:12]
    for pid, name in marked(mark).items():
        if name == "speedyloaderd":
            os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not marked(mark), 15, lambda: marked(mark))


@pytest.fixture(params=["float32", "float16", "bfloat16", "uint8"])
def dtype(request):
    return request.param


@pytest.fixture
def loader(shared_daemon, id_set):
    """Id pictures in pairs; the test may keep no lease."""
    from holding import open_ids

    with open_ids(id_set(40), shared_daemon.socket) as made:
        yield made
        assert made.stats()["held"] == 0, "the test keeps a lease"


@pytest.fixture
def batch(shared_daemon, id_set, dtype):
    """Three rows of 5 x 7 in every dtype, with every tensor."""
    from holding import open_every_tensor

    with open_every_tensor(id_set(40), shared_daemon.socket, dtype) as made:
        yield next(iter(made))
