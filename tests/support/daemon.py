"""Starts real daemons for the Python tests and proves afterwards that nothing is left of them.

A Daemons object belongs to one test. Every process it starts carries a mark in its environment, by which the
daemon, its workers and detached ones are found in /proc whoever their parent is. Failure is an exception with
the daemon's own log in it.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

from support.capi import BUILD, Client, Error

MARK = "SPEEDYLOADER_TEST_MARK"
PROGRAMS = BUILD / "bin"
PYTHON_PACKAGES = BUILD / "python"


def wait_for(condition, seconds=30, what=""):
    """The first true value of condition(), asked again and again until a deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what() if callable(what) else what or condition}"
        time.sleep(0.005)
    return value


def clean_environment(**added):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEEDYLOADER_")}
    return kept | {name: str(value) for name, value in added.items()}


def marked(mark):
    """Living processes that carry the mark: {pid: program name}."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "comm").read_text().strip()
    return found


# Of Python's multiprocessing, of torch, data of a benchmark: other programs come and go with theirs.
OF_OTHERS = ("sem.", "torch_", "pym-", "psm_", "sl-bench-")


def shared_memory_names():
    names = (entry.name for entry in pathlib.Path("/dev/shm").iterdir())
    return sorted(name for name in names if not name.startswith(OF_OTHERS))


class Daemon:
    """A running speedyloaderd. `flags` go to it, `wrap` is a command that starts it."""

    def __init__(self, owner, flags, env, wrap):
        self.socket = owner.folder / f"s{len(owner.daemons)}"
        self.log_file = owner.folder / f"log{len(owner.daemons)}"
        self._command = [*map(str, wrap), str(PROGRAMS / "speedyloaderd"), "--socket", str(self.socket),
                         *map(str, flags)]
        self._environment = owner.environment | {name: str(value) for name, value in env.items()}
        self.start()

    def launch(self):
        """Starts it and does not wait until it answers; its pid is known where there is no `wrap`."""
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self._environment)
        self.pid = self.process.pid

    def start(self):
        self.launch()
        wait_for(self._answers, 30, lambda: self.log())
        self.pid = self.status()["pid"]

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {self.process.returncode}:\n{self.log()}")
        try:
            Client(self.socket).disconnect()
        except Error:
            return False
        return True

    def log(self):
        return self.log_file.read_text(errors="replace")

    def status(self):
        with Client(self.socket, "status") as client:
            return client.status()

    def worker_pids(self):
        return [worker["pid"] for worker in self.status()["workers"] if worker["pid"] > 0]

    def descriptors(self):
        """{number: what it leads to} of the daemon's descriptors."""
        links = {}
        for entry in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                links[int(entry.name)] = os.readlink(entry)
        return links

    def is_alive(self):
        return self.process.poll() is None

    def stop(self, seconds=30):
        """SIGTERM; the exit status."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait(timeout=30)


class Daemons:
    """All daemons and clients of one test; a context manager."""

    def __init__(self):
        self.mark = uuid.uuid4().hex
        # Short, for socket paths hold 107 bytes, and open to a daemon that runs as somebody else.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sl"))
        self.folder.chmod(0o777)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.temporary.chmod(0o777)
        self.environment = clean_environment(
            **{MARK: self.mark, "TMPDIR": self.temporary, "XDG_CACHE_HOME": self.folder / "cache"})
        self.daemons = []
        self._clients = []
        self._shared_memory = shared_memory_names()

    def start(self, *flags, env=None, wrap=(), workers=2, memory="1GiB"):
        daemon = Daemon(self, ["--workers", workers, "--memory", memory, *flags], env or {}, wrap)
        self.daemons.append(daemon)
        return daemon

    def spec_file(self, spec):
        """A path given as it is; a spec written to a file."""
        if not isinstance(spec, dict):
            return spec
        file = self.folder / f"spec-{uuid.uuid4().hex[:8]}.json"
        file.write_text(json.dumps(spec))
        return file

    def begin(self, spec, daemon, *flags, wrap=()):
        """speedyctl run, started and not waited for. `wrap` is a command that starts it."""
        command = [*wrap, PROGRAMS / "speedyctl", "run", self.spec_file(spec), "--json", *flags]
        if daemon is not None:
            command += ["--socket", daemon.socket]
        client = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                                  env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._clients.append(client)
        return client

    def ask(self, daemon, verb, *flags, timeout=60):
        """A verb of speedyctl that looks at a daemon, to its end: what it printed."""
        command = [PROGRAMS / "speedyctl", verb, "--socket", daemon.socket, *flags]
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True, timeout=timeout,
                              env=self.environment, capture_output=True)
        assert done.returncode == 0, f"{done.stderr}\n{daemon.log()}"
        return done.stdout

    def begin_python(self, script, *arguments):
        """A Python program, started and not waited for; it can import what the tests can, and the package."""
        path = os.pathsep.join(dict.fromkeys([str(PYTHON_PACKAGES), *filter(None, sys.path)]))
        client = subprocess.Popen([sys.executable, str(script), *map(str, arguments)], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=self.environment | {"PYTHONPATH": path, "SL_BUILD_DIR": str(BUILD)})
        self._clients.append(client)
        return client

    def try_run(self, spec, daemon, *flags, timeout=120, wrap=()):
        """speedyctl run to its end: (exit status, the JSON object or None, stderr)."""
        client = self.begin(spec, daemon, *flags, wrap=wrap)
        out, err = client.communicate(timeout=timeout)
        return client.returncode, json.loads(out) if out else None, err

    def run(self, spec, daemon, *flags, timeout=120, wrap=()):
        """speedyctl run with hashes and ids; it must account for every sample."""
        status, result, err = self.try_run(spec, daemon, "--hash", "--ids", *flags, timeout=timeout, wrap=wrap)
        assert status == 0, f"{err}\n{daemon.log() if daemon else ''}"
        assert result["accounted"] is True
        return result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends everything, then checks that no process, no shared memory and no file is left."""
        for client in self._clients:
            if client.poll() is None:
                client.kill()
            client.communicate()
        statuses = [daemon.stop() for daemon in self.daemons if daemon.is_alive()]
        try:
            wait_for(lambda: not marked(self.mark), 10, lambda: marked(self.mark))
            assert shared_memory_names() == self._shared_memory
            assert list(self.temporary.iterdir()) == []
            assert all(status == 0 for status in statuses), [daemon.log() for daemon in self.daemons]
            for daemon in self.daemons:
                assert "ERROR: AddressSanitizer" not in daemon.log() and "runtime error:" not in daemon.log()
        finally:
            for pid in marked(self.mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.folder, ignore_errors=True)
