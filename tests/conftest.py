"""Fixtures of the tests that run the whole program: real daemons, real photographs, pictures that are ids.

Sets made once a session lie in a folder that any user may read, because some daemons run as somebody else.
"""

import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "makers"), str(HERE / "reader")]

import test_card  # noqa: E402
from support.daemon import PROGRAMS, Daemons  # noqa: E402

# Some workers here are made to abort: no core files.
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@pytest.fixture(scope="session", autouse=True)
def own_cache():
    """Daemons keep manifests in a folder of this session, not in the user's; pip keeps its cache."""
    kept = os.environ.get("XDG_CACHE_HOME")
    home = pathlib.Path(kept or pathlib.Path.home() / ".cache")
    os.environ.setdefault("PIP_CACHE_DIR", str(home / "pip"))
    os.environ.setdefault("UV_CACHE_DIR", str(home / "uv"))
    folder = tempfile.mkdtemp(prefix="sl-cache")
    os.environ["XDG_CACHE_HOME"] = folder
    yield
    shutil.rmtree(folder, ignore_errors=True)
    if kept is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = kept


@pytest.fixture
def daemons():
    """Starts daemons and clients of one test, and checks that nothing of them is left."""
    with Daemons() as made:
        yield made


@pytest.fixture
def daemon(daemons):
    """A daemon with two workers."""
    return daemons.start()


@pytest.fixture
def as_nobody():
    """What goes before a command to run it as a user without rights."""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if os.geteuid() != 0:
        pytest.skip("only root can run a daemon as somebody else")
    if subprocess.run([*command, "test", "-x", str(PROGRAMS / "speedyloaderd")]).returncode != 0:
        pytest.skip("the build folder is closed to other users")
    return command


@pytest.fixture
def start_as_nobody(daemons, as_nobody):
    """Starts daemons that run as a user without rights. This process is a foreign user to them: they serve it all that
    both may read."""
    file = daemons.folder / "everything.toml"
    file.write_text('[[root]]\npath = "/"\ngroup = 0\n[limits]\nconnects = 0\n')

    def start(*flags, wrap=()):
        return daemons.start("--config", file, *flags, wrap=[*as_nobody, *wrap])

    return start


@pytest.fixture
def open_folder():
    """A temporary folder that every user may enter."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sl-data"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def session_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sl-sets"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def photos(session_folder):
    """200 photographs of about 500 x 375 in 8 classes."""
    folder = session_folder / "photos"
    made = [PROGRAMS / "sl_make_photos", folder, "--count", "200", "--classes", "8", "--seed", "11"]
    subprocess.run(made, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def few_photos(photos, session_folder):
    """40 of them, two classes."""
    folder = session_folder / "few_photos"
    for source in sorted(entry for entry in photos.iterdir() if entry.is_dir())[:2]:
        (folder / source.name).mkdir(parents=True)
        for photo in sorted(source.iterdir())[:20]:
            shutil.copy(photo, folder / source.name / photo.name)
    return folder


@pytest.fixture(scope="session")
def id_set(session_folder):
    """id_set(n): a folder of n pictures whose colour is their sample id."""
    made = {}

    def make(count):
        if count not in made:
            made[count] = session_folder / f"ids_{count}"
            test_card.id_pictures(made[count], count, classes=min(count, 3), size=(2, 2))
        return made[count]

    return make
