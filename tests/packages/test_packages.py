"""The Debian packages: without a fault that lintian knows, and on a machine they install, work and go without a trace.

test.sh builds them (build.sh); without them these tests are skipped. They are installed into an overlay of this
machine, in name spaces of their own: that needs root and the right to mount.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from machine import NAMES, Machine, shared_folder

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
CONFIG = "etc/speedyloader/speedyloader.toml"
# What installing any package changes, and what stays on purpose: the daemon's user.
NOT_OURS = re.compile(r"(var/lib/dpkg|var/log|var/cache/(ldconfig|man|debconf)|var/lib/(systemd|python))(/.*)?|"
                      r"etc/ld\.so\.cache|etc/(passwd|group|shadow|gshadow)-?|etc/\.pwd\.lock")


@pytest.fixture(scope="module")
def machine(packages, few_photos, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("only root can install packages")
    made = Machine(tmp_path_factory.mktemp("overlay") / "machine", shared_folder(tmp_path_factory, packages, few_photos))
    try:
        # Of triggers only ours: the index of all manual pages would take longer than everything else.
        made.run("sh", "-c", "dpkg --force-unsafe-io --no-triggers -i /mnt/*.deb && dpkg --triggers-only libc-bin")
        yield made
    finally:
        made.close()


def test_lintian_finds_no_error_and_no_warning(packages):
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    done = subprocess.run(["lintian", "--no-cfg", "--allow-root", "--fail-on=error,warning", *packages.values()],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"^[EW]:", done.stdout, re.MULTILINE), done.stdout


def test_no_package_has_a_fault_point(packages, tmp_path):
    for name, package in packages.items():
        subprocess.run(["dpkg-deb", "-x", package, tmp_path / name], check=True, timeout=60)
    programs = [file for file in tmp_path.rglob("*") if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF"]
    assert len(programs) == 5
    for program in programs:
        assert b"SPEEDYLOADER_TEST_" not in program.read_bytes(), program


def test_each_package_says_what_it_needs(packages):
    depends = {name: subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True,
                                    check=True).stdout for name, package in packages.items()}
    version = re.search(r"project\(speedyloader VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert re.fullmatch(r"libc6 \([^)]*\)\n", depends["libspeedyloader0"])  # and nothing else
    for name in set(NAMES) - {"libspeedyloader0"}:
        assert f"libspeedyloader0 (= {version})" in depends[name]
    assert "libvips42" in depends["speedyloader-daemon"] and "libsystemd0" in depends["speedyloader-daemon"]
    assert "python3 (>= 3.11~), python3 (<< 3.12)" in depends["python3-speedyloader"]


def test_the_self_test_of_what_is_installed_is_good(machine):
    assert "FAIL" not in machine.run("/usr/bin/speedyloaderd", "--self-test")


def test_the_user_of_the_service_is_there_and_can_run_it(machine):
    assert machine.run("id", "--user", "--name", "speedyloader").strip() == "speedyloader"
    assert "FAIL" not in machine.run("setpriv", "--reuid=speedyloader", "--regid=speedyloader", "--clear-groups",
                                     "speedyloaderd", "--self-test")
    assert (machine.changes / "root").exists() is False


def test_the_installed_units_and_configuration_are_right(machine):
    done = machine.try_run("systemd-analyze", "verify", "--man=no", "/lib/systemd/system/speedyloaderd.service",
                           "/lib/systemd/system/speedyloaderd.socket")
    assert (done.returncode, "speedyloader" in done.stdout + done.stderr) == (0, False), done.stderr
    assert "workers=" in machine.run("speedyloaderd", "--check-config", f"/{CONFIG}")
    assert (machine.changes / "etc/systemd/system/sockets.target.wants/speedyloaderd.socket").is_symlink()


def test_a_C_program_is_built_and_run_with_the_development_package(machine):
    machine.run("sh", "-c", "cc -std=c99 -Wall -Werror /mnt/job.c -o /tmp/job $(pkg-config --cflags --libs speedyloader)")
    assert machine.run("/tmp/job", "/mnt/photos").strip() == "40 samples"
    linked = machine.run("readelf", "--dynamic", "/tmp/job")
    assert "[libspeedyloader.so.0]" in linked and "RUNPATH" not in linked


def test_the_library_finds_its_daemon_without_a_PATH(machine):
    machine.run("sh", "-c", "cc -std=c99 /mnt/job.c -o /tmp/lost $(pkg-config --cflags --libs speedyloader)")
    assert machine.run("env", "-i", "/tmp/lost", "/mnt/photos").strip() == "40 samples"


def test_CMake_finds_the_development_package(machine):
    machine.run("sh", "-c", "mkdir /tmp/cm && cp /mnt/job.c /mnt/job.cmake /tmp/cm && cd /tmp/cm &&"
                            " mv job.cmake CMakeLists.txt && cmake -B build . && cmake --build build")
    assert machine.run("/tmp/cm/build/job", "/mnt/photos").strip() == "40 samples"


def test_python_imports_the_package_and_has_an_epoch(machine):
    result = json.loads(machine.run("/usr/bin/python3", "-I", "/mnt/job.py", "/mnt/photos"))
    assert result == {"batches": 5, "rows": 40, "file": "/usr/lib/python3/dist-packages/speedyloader/__init__.py"}
    version = machine.run("/usr/bin/python3", "-I", "-c",
                          "import importlib.metadata as m, speedyloader as s; print(m.version('speedyloader') == s.__version__)")
    assert version.strip() == "True"


def test_speedyctl_streams_a_folder(machine):
    assert json.loads(machine.run("speedyctl", "run", "/mnt/photos", "--json"))["accounted"] is True


def test_what_an_administrator_has_changed_outlives_an_upgrade(machine):
    config = machine.changes / CONFIG
    config.write_text("[daemon]\nworkers = 3\n")
    machine.run("sh", "-c", "dpkg --force-unsafe-io --no-triggers --force-confdef -i /mnt/speedyloader-daemon_*.deb")
    assert config.read_text() == "[daemon]\nworkers = 3\n"
    assert "workers=3" in machine.run("speedyloaderd", "--check-config", f"/{CONFIG}")


def test_removed_and_purged_they_leave_nothing_but_the_user(machine):
    """The last test of this machine."""
    machine.run("mkdir", "-p", "/var/cache/speedyloader/manifests")
    machine.run("dpkg", "--force-unsafe-io", "--no-triggers", "--remove", *NAMES)
    assert (machine.changes / CONFIG).exists()
    machine.run("dpkg", "--force-unsafe-io", "--no-triggers", "--purge", *NAMES)
    left = {path for path in machine.changed_files() if not NOT_OURS.fullmatch(path)}
    assert left == set()
    assert "speedyloader" in (machine.changes / "etc/passwd").read_text()
