"""Socket activation: the service manager holds the socket, so that no client meets a closed door."""

import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
from support.capi import Client, Error
from support.daemon import PROGRAMS, wait_for
from support.manager import Activator, Notifications
from support.specs import id_spec


@pytest.fixture
def activator(daemons):
    made = Activator(daemons)
    yield made
    made.close()


class WaitingClient(threading.Thread):
    """Connects in a thread of its own and keeps the daemon's process id."""

    def __init__(self, path):
        super().__init__()
        self.pid = None
        self.error = None
        self._path = path
        self.start()

    def run(self):
        try:
            with Client(self._path) as client:
                self.pid = client.status()["pid"]
        except Error as error:
            self.error = error


def test_the_first_client_starts_the_daemon(daemons, id_set):
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("systemd-socket-activate is not installed")
    path = daemons.folder / "activated"
    command = [activate, "--seqpacket", f"--listen={path}", PROGRAMS / "speedyloaderd", "--workers", "2",
               "--memory", "512MiB"]
    with open(daemons.folder / "log", "wb") as log:
        activated = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log,
                                     env=daemons.environment)
    try:
        wait_for(path.exists)
        assert "speedyloaderd" not in pathlib.Path(f"/proc/{activated.pid}/comm").read_text()
        with Client(path) as client:
            status = client.status()
        assert status["pid"] == activated.pid
        assert status["socket"] == str(path)
        _, result, err = daemons.try_run(id_spec(id_set(40)), None, "--socket", path)
        assert result["accounted"] is True, err
        activated.send_signal(signal.SIGTERM)
        assert activated.wait(timeout=5) == 0
        assert path.exists()  # it is the service manager's
    finally:
        activated.kill()
        activated.wait()


def test_clients_that_come_while_no_daemon_runs_wait_for_the_next_one(activator):
    first = activator.start()
    assert Client(activator.path).status()["pid"] == first.pid
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=5) == 0
    waiting = [WaitingClient(activator.path) for _ in range(5)]
    time.sleep(0.3)  # nothing to wait for: they must still be waiting afterwards
    assert all(client.is_alive() for client in waiting)
    second = activator.start()
    for client in waiting:
        client.join(timeout=15)
    assert [(client.pid, client.error) for client in waiting] == [(second.pid, None)] * 5


def test_SIGKILL_of_an_activated_daemon_leaves_the_socket_for_the_next(activator):
    first = activator.start()
    assert Client(activator.path).status()["pid"] == first.pid
    first.kill()
    first.wait()
    waiting = WaitingClient(activator.path)
    second = activator.start()
    waiting.join(timeout=15)
    assert waiting.pid == second.pid


def test_an_activated_daemon_needs_no_path_and_tells_its_manager(daemons, activator):
    manager = Notifications(daemons.folder / "notify")
    activator.start(NOTIFY_SOCKET=str(manager.path))
    assert manager.next("READY", "1")
    manager.close()


def test_no_worker_inherits_what_the_manager_said_of_the_socket(activator):
    activator.start()
    with Client(activator.path) as client:
        workers = [worker["pid"] for worker in client.status()["workers"]]
    assert workers
    for pid in workers:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        assert b"LISTEN_FDS" not in environment and b"LISTEN_PID" not in environment


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_socket_of_another_kind_is_a_clear_error(daemons, activator, kind):
    wrong = socket.socket(socket.AF_UNIX, kind)
    wrong.bind(str(daemons.folder / "wrong"))
    if kind == socket.SOCK_STREAM:
        wrong.listen()
    activator._socket.close()
    activator._socket = wrong
    daemon = activator.start()
    assert daemon.wait(timeout=10) == 1
    assert "from the service manager: descriptor 3 is no listening SOCK_SEQPACKET socket" in activator.log()
