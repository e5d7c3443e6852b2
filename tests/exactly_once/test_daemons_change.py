"""A daemon goes in the middle of an epoch and another one comes: clients go on by themselves, and get what they
would have got."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

import test_card
from support.capi import Client, Error
from support.daemon import PROGRAMS, wait_for
from support.specs import id_spec, spec

COUNT = 500


def content(stream):
    return [(batch.place(), batch.ids(), batch.raw("image")[2]) for batch in stream.batches()]


def replace(daemon, how):
    """The daemon ends, and another one takes its place."""
    os.kill(daemon.pid, how)
    daemon.process.wait(timeout=30)
    daemon.start()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_two_runs_go_on_with_the_next_daemon_and_give_the_same_bytes(daemons, daemon, few_photos, how):
    job = spec(few_photos, epochs=15)
    expected = daemons.run(job, daemon)
    clients = [daemons.begin(job, daemon, "--hash", "--ids") for _ in range(2)]
    for round_number in range(2):
        wait_for(lambda: [s for s in daemon.status()["streams"] if s["batches"] > 3 + round_number])
        replace(daemon, how)
    for client in clients:
        out, err = client.communicate(timeout=120)
        assert client.returncode == 0, err
        result = json.loads(out)
        assert result["epoch_hashes"] == expected["epoch_hashes"] and result["ids"] == expected["ids"]
        assert result["accounted"] is True and result["samples"] == expected["samples"]
        assert 1 <= result["reconnects"] <= 2
        assert err.count("goes on with another one") == result["reconnects"]


def test_where_no_other_daemon_comes_the_run_ends_with_the_reason(daemons, daemon, id_set):
    client = daemons.begin(id_spec(id_set(COUNT), epochs=100_000), daemon, "--reconnect", 0.3)
    wait_for(lambda: [s for s in daemon.status()["streams"] if s["batches"] > 3])
    daemon.kill()
    _, err = client.communicate(timeout=10)
    assert client.returncode == 1
    assert "there is no other" in err and str(daemon.socket) in err


class Activated:
    """A daemon behind a socket that is somebody else's, as systemd holds it: clients queue while there is none."""

    def __init__(self, daemons):
        self.path = daemons.folder / "held"
        self._environment = daemons.environment
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self.start()

    def start(self):
        os.set_inheritable(self._listener.fileno(), True)
        number = self._listener.fileno()
        self._process = subprocess.Popen([PROGRAMS / "speedyloaderd", "--listen-fd", str(number)], pass_fds=[number],
                                         stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self._environment)

    def end(self, how=signal.SIGTERM):
        self._process.send_signal(how)
        self._process.wait(timeout=30)

    def close(self):
        self.end()
        self._listener.close()
        self.path.unlink()


def test_in_the_queue_before_a_daemon_that_is_restarted_patience_does_not_end(daemons, id_set):
    activated = Activated(daemons)
    job = id_spec(id_set(COUNT), batch=10, epochs=2)
    with Client(activated.path, reconnect_ms=100) as client:
        stream = client.open(job, slots=4)
        expected = content(stream)
        stream.close()
        stream = client.open(job, slots=4)
        seen = [stream.next()[1] for _ in range(3)]
        got = [(batch.place(), batch.ids(), batch.raw("image")[2]) for batch in seen]
        activated.end()
        restart = threading.Timer(1, activated.start)  # ten times the patience
        restart.start()
        for batch in seen:
            batch.release()
        assert got + content(stream) == expected
        restart.join()
        stream.close()
    activated.close()


def test_a_data_set_that_has_changed_meanwhile_is_refused_at_that_batch(daemons, daemon, tmp_path):
    paths = test_card.id_pictures(tmp_path / "set", 40)
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(tmp_path / "set", batch=4, epochs=2), slots=2)
        for _ in range(3):
            stream.next()[1].release()
        daemon.kill()
        paths[11].unlink()
        daemon.start()
        with pytest.raises(Error) as refused:
            while True:
                stream.next()[1].release()  # what was ready comes first
        assert refused.value.code == "SL_E_SPEC"
        assert "samples is 40 in the state and 39 here" in refused.value.message
        with pytest.raises(Error) as again:
            stream.next()
        assert again.value.message == refused.value.message
        stream.close()


def test_a_call_never_takes_longer_than_its_time_out_while_daemons_come_and_go(daemon, id_set):
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(id_set(COUNT), batch=4, epochs=1000), slots=2)
        stream.next()[1].release()
        longest = 0
        for _ in range(3):
            stopped = threading.Thread(target=replace, args=(daemon, signal.SIGKILL))
            stopped.start()
            while stopped.is_alive():
                begin = time.monotonic()
                _, batch = stream.next(timeout_ms=0)
                longest = max(longest, time.monotonic() - begin)
                if batch is not None:
                    batch.release()
            stream.next()[1].release()
        assert longest < 0.5
        stream.close()


def test_descriptors_and_maps_of_a_client_are_as_before_after_ten_daemons(daemon, id_set):
    def held():
        maps = pathlib.Path("/proc/self/maps").read_text()
        return len(os.listdir("/proc/self/fd")), maps.count("memfd:speedyloader")

    with Client(daemon.socket) as client:
        stream = client.open(id_spec(id_set(COUNT), batch=4, epochs=1000), slots=2)
        stream.next()[1].release()
        before = held()
        for _ in range(10):
            replace(daemon, signal.SIGKILL)
            for _ in range(4):
                stream.next()[1].release()
        assert held() == before
        stream.close()
