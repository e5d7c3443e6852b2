"""A service manager's part, for tests of the daemon under one: the notify socket, and a socket that outlives daemons.

One thread each. What a daemon says is kept in order; `next` waits for a line with a deadline. An Activator's
daemons are started with its listening socket as descriptor 3, as sd_listen_fds(3) wants it, and end with it.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time

from support.daemon import PROGRAMS

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17  # of ptrace
WALL = 0x40000000  # of waitpid: threads too


class Notifications:
    """The socket that $NOTIFY_SOCKET names, and the messages that came to it."""

    def __init__(self, path):
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        os.chmod(path, 0o666)

    def messages(self, seconds):
        """All that come within a time: [(when, {name: value})]."""
        end = time.monotonic() + seconds
        found = []
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                text = self._socket.recv(4096).decode()
            except TimeoutError:
                break
            found.append((time.monotonic(), dict(line.split("=", 1) for line in text.splitlines())))
        return found

    def next(self, name, value=None, seconds=30):
        """The first message from now on with a line `name` (of `value`), as a dict."""
        end = time.monotonic() + seconds
        seen = []
        while True:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                message = dict(line.split("=", 1) for line in self._socket.recv(4096).decode().splitlines())
            except TimeoutError:
                raise AssertionError(f"no {name}={value} within {seconds} s; there came {seen}") from None
            if name in message and value in (None, message[name]):
                return message
            seen.append(message)

    def close(self):
        self._socket.close()
        self.path.unlink()


class Activator:
    """Holds a listening socket and starts daemons with it, one after another."""

    def __init__(self, owner):
        self._owner = owner
        self.path = owner.folder / "activated"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(self.path))
        self._socket.listen(64)
        self._running = []

    def start(self, *flags, **environment):
        """A daemon that is given the socket; its log is in `log_file` of the folder."""
        script = f'exec 3<&{self._socket.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"'
        command = ["bash", "-c", script, PROGRAMS / "speedyloaderd", "--workers", "2", "--memory", "512MiB", *flags]
        with open(self._owner.folder / "activated.log", "ab") as log:
            started = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, pass_fds=[self._socket.fileno()],
                                       env=self._owner.environment | environment)
        self._running.append(started)
        return started

    def log(self):
        return (self._owner.folder / "activated.log").read_text(errors="replace")

    def close(self):
        self._socket.close()
        for daemon in self._running:
            with contextlib.suppress(ProcessLookupError):
                daemon.send_signal(signal.SIGTERM)
            daemon.wait(timeout=10)


@contextlib.contextmanager
def stopped_thread(tid):
    """One thread of another process stands still; the others go on. OSError where ptrace is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(SEIZE, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace may not be used here")
    libc.ptrace(INTERRUPT, tid, None, None)
    os.waitpid(tid, WALL)
    try:
        yield
    finally:
        libc.ptrace(DETACH, tid, None, None)
