"""A copy of this machine in name spaces of its own, where packages are installed and, if wanted, systemd runs.

Needs root and the right to mount, else the test is skipped with the reason. One thread. What is changed there is
in memory and goes with close(), and so does every process.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time

import pytest

HERE = pathlib.Path(__file__).parent
NAMES = ["speedyloader-daemon", "libspeedyloader0", "libspeedyloader-dev", "python3-speedyloader"]


def shared_folder(tmp_path_factory, packages, photos):
    """What a machine sees as /mnt: the packages, some photographs, the programs that use them."""
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(0o755)
    for package in packages.values():
        shutil.copy(package, shared)
    shutil.copytree(photos, shared / "photos")
    for file in HERE.glob("job.*"):
        shutil.copy(file, shared)
    return shared


def _make_group():
    """A control group for systemd to be the root of, so that nothing of it is left in ours."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            made = pathlib.Path(place, f"speedyloader-test-{os.getpid()}")
            try:
                made.mkdir()
            except OSError as error:
                pytest.skip(f"no control group for systemd: {error}")
            return made
    pytest.skip("no control groups of version 2 are mounted")


def _remove_group(group):
    deadline = time.monotonic() + 10
    while group.exists() and time.monotonic() < deadline:
        for place, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # its last process has not gone yet
                os.rmdir(place)
        time.sleep(0.02)
    assert not group.exists()


class Machine:
    """This machine, where changes go away; commands run in it as root, with little environment.

    With `boot` the packages are installed and systemd is its process 1.
    """

    def __init__(self, folder, shared, boot=False):
        self.folder = folder
        folder.mkdir()
        self._root = str(folder / "root")
        self._group = None
        command = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        program = ["sh", str(HERE / "overlay.sh"), str(folder), str(shared)]
        if boot:
            self._group = _make_group()
            self._root = "/"
            command = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self._group), *command, "--cgroup"]
            program += ["sh", str(HERE / "boot.sh"), str(folder)]
        self._holder = subprocess.Popen([*command, *program], text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._pid = self._holder.stdout.readline().strip()
        if not self._pid:
            pytest.skip(f"no overlay of this machine: {self._holder.stderr.read().strip()}")
        self.changes = pathlib.Path(f"/proc/{self._pid}/root{folder}/changes")

    def try_run(self, *command):
        inside = ["nsenter", f"--target={self._pid}", "--mount", "--pid", "--root", "chroot", self._root, "env", "-i",
                  "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8",
                  "DEBIAN_FRONTEND=noninteractive"]
        return subprocess.run([*inside, *map(str, command)], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)

    def run(self, *command):
        done = self.try_run(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def changed_files(self):
        """Files and folders that are other than before, as paths below /; folders only if they are new."""
        found = set()
        for place, folders, files in os.walk(self.changes):
            for name in [*folders, *files]:
                path = pathlib.Path(place, name)
                below = path.relative_to(self.changes)
                if name in folders and not path.is_symlink() and pathlib.Path("/", below).is_dir():
                    continue
                found.add(str(below))
        return found

    def ended(self):
        """Why it is there no more; nothing while it is."""
        return None if self._holder.poll() is None else self._holder.stderr.read().strip() or "it ended"

    def close(self):
        self._holder.kill()  # unshare takes no SIGTERM; its child goes with it
        self._holder.wait()
        if self._group is not None:
            _remove_group(self._group)
