"""The daemon is killed or asked to stop under a running client (LDR-08)."""

import subprocess

import pytest

from support.daemon import PROGRAMS, marked, shared_memory_names, wait_for
from support.specs import id_spec


@pytest.fixture
def streaming(daemons, daemon, id_set):
    """A client that has had batches and wants many more, and from this daemon only."""
    client = daemons.begin(id_spec(id_set(500), epochs=100_000), daemon, "--reconnect", 0)
    wait_for(lambda: [s for s in daemon.status()["streams"] if s["batches"] > 3])
    return client


def test_LDR_08_SIGKILL_of_the_daemon_is_a_clear_error_and_a_new_one_starts_at_once(
        daemons, daemon, streaming, id_set):
    names = shared_memory_names()
    daemon.kill()
    _, err = streaming.communicate(timeout=10)
    assert streaming.returncode == 1
    assert "daemon" in err and err.count("\n") == 1
    wait_for(lambda: not marked(daemons.mark), 5, lambda: marked(daemons.mark))
    assert shared_memory_names() == names
    assert daemon.socket.exists()  # the dead cannot remove it
    daemon.start()
    daemons.run(id_spec(id_set(40)), daemon)


def test_SIGTERM_ends_the_daemon_within_5_s_and_removes_its_socket(daemons, daemon, streaming):
    assert daemon.stop(seconds=5) == 0
    assert not daemon.socket.exists()
    _, err = streaming.communicate(timeout=10)
    assert streaming.returncode == 1
    assert "daemon" in err
    wait_for(lambda: not marked(daemons.mark), 5, lambda: marked(daemons.mark))


def test_a_second_daemon_at_a_path_in_use_is_refused_and_disturbs_nobody(daemons, daemon, id_set):
    refused = subprocess.run([PROGRAMS / "speedyloaderd", "--socket", daemon.socket], capture_output=True,
                             text=True, env=daemons.environment, timeout=30)
    assert refused.returncode == 1
    assert f"another daemon already answers at {daemon.socket}" in refused.stderr
    daemons.run(id_spec(id_set(40)), daemon)
