"""The wheel alone: in a new environment without any framework it imports, streams and brings its programs.

test.sh builds the wheel into build/wheel; without one these tests are skipped. What it depends on lies in the
folder `wheels` of the environment that runs the tests, so that installing needs no index.
"""

import email
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import uuid
import zipfile

import pytest
from support.daemon import MARK, clean_environment, marked, wait_for

ROOT = pathlib.Path(__file__).parents[2]
DEPENDENCIES = pathlib.Path(sys.prefix) / "wheels"
C_LIBRARY = {"libc.so.6", "ld-linux-x86-64.so.2"}
CXX_RUNTIME = {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6"}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300,
                          **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def needed(program):
    """The shared libraries that a file asks the linker for."""
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--dynamic", "--wide", program)))


@pytest.fixture(scope="module")
def wheel():
    found = sorted((ROOT / "build" / "wheel").glob("speedyloader-*.whl"))
    if not found:
        pytest.skip("no wheel in build/wheel; test.sh builds it")
    assert len(found) == 1
    return found[0]


class Installed:
    """A new environment with the wheel in it, and commands in it that see nothing of ours."""

    def __init__(self, python, folder, wheel, dependencies):
        self.folder = folder
        self.bin = folder / "bin"
        run(python, "-m", "venv", folder)
        run(self.bin / "python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links",
            dependencies, wheel)
        origin = self.python("import importlib.util; print(importlib.util.find_spec('speedyloader').origin)")
        self.package = pathlib.Path(origin.strip()).parent

    def python(self, program, *arguments, environment=None):
        """A Python program's output."""
        return run(self.bin / "python", "-c", program, *arguments, cwd=self.folder,
                   env=environment or self.environment())

    @staticmethod
    def environment(**added):
        removed = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
        return {name: value for name, value in clean_environment(**added).items() if name not in removed}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    if not DEPENDENCIES.is_dir():
        pytest.skip(f"{DEPENDENCIES} is not there; cmake/python-env.sh makes it")
    return Installed("/usr/bin/python3", tmp_path_factory.mktemp("wheel") / "env", wheel, DEPENDENCIES)


@pytest.fixture
def private(installed):
    """An environment in which programs of the wheel start the wheel's own daemon, apart from all others."""
    mark = uuid.uuid4().hex
    yield installed.environment(**{MARK: mark, "SPEEDYLOADER_PRIVATE_NAME": mark[:12]})
    for pid, name in marked(mark).items():
        if name == "speedyloaderd":
            os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not marked(mark), 15, lambda: marked(mark))


def test_one_wheel_serves_every_python_from_3_11_on(wheel):
    assert re.fullmatch(r"speedyloader-[0-9.]+-cp311-abi3-linux_x86_64\.whl", wheel.name)


def test_the_wheel_depends_on_nothing_but_the_backend_of_its_module(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    required = metadata.get_all("Requires-Dist")
    assert [re.match(r"[\w.-]+", line).group() for line in required] == ["nanobind-backend"]
    project = (ROOT / "CMakeLists.txt").read_text()
    assert metadata["Version"] == re.search(r"project\(speedyloader VERSION ([0-9.]+)", project).group(1)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "# SpeedyLoader" in metadata.get_payload()


def test_every_source_of_the_package_is_in_the_wheel(wheel):
    sources = ROOT / "bindings" / "python" / "speedyloader"
    expected = {f"speedyloader/{file.relative_to(sources)}" for file in sources.rglob("*")
                if file.is_file() and "__pycache__" not in file.parts}
    expected |= {"speedyloader/_core.abi3.so", "speedyloader/lib/libspeedyloader.so.0",
                 "speedyloader/include/speedyloader/speedyloader.h", "speedyloader/include/speedyloader/guest.h",
                 "speedyloader/bin/speedyloaderd", "speedyloader/bin/speedyloader-worker", "speedyloader/bin/speedyctl"}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected
    assert {"speedyloader/py.typed", "speedyloader/_core.pyi"} <= held


def test_no_part_that_a_job_loads_is_linked_to_python_or_a_framework(installed):
    assert needed(installed.package / "lib" / "libspeedyloader.so.0") <= C_LIBRARY
    module = needed(installed.package / "_core.abi3.so")
    assert "libspeedyloader.so.0" in module
    assert module <= {"libspeedyloader.so.0"} | C_LIBRARY | CXX_RUNTIME


def test_importing_needs_and_loads_no_framework(installed):
    program = "import json, sys, speedyloader; print(json.dumps([*sys.modules]))"
    loaded = set(json.loads(installed.python(program)))
    assert "speedyloader" in loaded
    assert not {"numpy", "torch", "jax", "tensorflow", "PIL"} & loaded


def test_the_commands_are_the_programs_of_the_wheel(installed, private):
    version = installed.python("import speedyloader; print(speedyloader.__version__)").strip()
    assert version in run(installed.bin / "speedyctl", "--version", env=private)
    assert version in run(installed.bin / "speedyloaderd", "--version", env=private)
    wrong = subprocess.run([installed.bin / "speedyctl", "no-such-verb"], env=private, capture_output=True)
    assert wrong.returncode == 2


def test_speedyctl_streams_a_folder_with_the_daemon_of_the_wheel(installed, private, few_photos):
    result = json.loads(run(installed.bin / "speedyctl", "run", few_photos, "--json", env=private))
    assert result["accounted"] is True
    daemons = [pid for pid, name in marked(private[MARK]).items() if name == "speedyloaderd"]
    assert [pathlib.Path(os.readlink(f"/proc/{pid}/exe")) for pid in daemons] == [
        installed.package / "bin" / "speedyloaderd"]


PROGRAM_OF_A_JOB = """
import json, sys
import speedyloader as sl

loader = sl.Loader(sl.ImageFolder(sys.argv[1]), [sl.Resize(32), sl.CenterCrop(32)], batch_size=8)
shapes = []
for batch in loader:
    shapes.append(memoryview(batch["image"]).shape)
    del batch
print(json.dumps({"length": len(loader), "shapes": shapes}))
"""


def test_a_loader_gives_every_batch_of_a_small_folder(installed, private, few_photos):
    result = json.loads(installed.python(PROGRAM_OF_A_JOB, few_photos, environment=private))
    assert result["length"] == 5
    assert [shape[0] for shape in result["shapes"]] == [8] * 5
    assert all(sorted(shape[1:]) == [3, 32, 32] for shape in result["shapes"])


def newer_pythons():
    """{version: program} of Pythons from 3.12 on that really run: on PATH, or pyenv's but not chosen."""
    names = [shutil.which(name) for name in ("python3", *(f"python3.{minor}" for minor in range(12, 20)))]
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    names += sorted(pyenv.glob("versions/3.*/bin/python3"))
    found = {}
    for name in filter(None, names):
        answer = subprocess.run([name, "-c", "import sys, venv; print(*sys.version_info[:2], sep='.')"],
                                capture_output=True, text=True)
        version = answer.stdout.strip()
        if answer.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 12):
            found[version] = name
    return found


def test_the_same_wheel_serves_a_newer_python(wheel, private, few_photos, tmp_path):
    pythons = newer_pythons()
    if not pythons:
        pytest.skip("no Python from 3.12 on is on this machine")
    version, python = max(pythons.items(), key=lambda item: int(item[0].split(".")[1]))
    # The backend has a wheel for each Python; only this one comes from the index.
    backend = f"nanobind-backend=={importlib.metadata.version('nanobind-backend')}"
    fetched = subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
                              "--python-version", version, "--dest", tmp_path / "wheels", backend],
                             capture_output=True, text=True)
    if fetched.returncode != 0:
        pytest.skip(f"nanobind-backend for Python {version} cannot be fetched: {fetched.stderr[-200:]}")
    newer = Installed(python, tmp_path / "env", wheel, tmp_path / "wheels")
    result = json.loads(newer.python(PROGRAM_OF_A_JOB, few_photos, environment=private))
    assert result["length"] == 5
