"""The daemon under a service manager: it says when it is ready, what it does, and that its loop turns."""

import os
import signal

import pytest
from support.manager import Notifications, stopped_thread
from support.specs import id_spec

WATCHDOG_S = 0.6


@pytest.fixture
def manager(daemons):
    made = Notifications(daemons.folder / "notify")
    yield made
    made.close()


@pytest.fixture
def watched(daemons, manager):
    """A daemon whose manager wants to hear of it every 0.6 s."""
    return daemons.start(env={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": int(WATCHDOG_S * 1e6)})


def beats(messages):
    return [when for when, message in messages if message.get("WATCHDOG") == "1"]


def test_ready_is_said_once_clients_are_answered(daemons, manager):
    daemon = daemons.start(env={"NOTIFY_SOCKET": manager.path})
    ready = manager.next("READY", "1")
    assert ready["STATUS"] == "0 clients, 0 streams"
    assert daemon.log().count(" ready\n") == 1


def test_the_status_line_follows_clients_and_streams(daemons, manager, watched, id_set):
    manager.next("READY")
    client = daemons.begin(id_spec(id_set(40), epochs=1_000_000), watched)
    manager.next("STATUS", "1 client, 1 stream")
    client.kill()
    client.wait()
    manager.next("STATUS", "0 clients, 0 streams")


def test_stopping_is_said_before_the_daemon_ends(manager, watched):
    manager.next("READY")
    assert watched.stop(seconds=5) == 0
    manager.next("STOPPING", "1", seconds=1)


def test_a_daemon_that_turns_is_heard_well_within_the_watchdog_time(manager, watched, daemons, id_set):
    manager.next("READY")
    daemons.begin(id_spec(id_set(40), epochs=1_000_000), watched)  # a busy loop must find the time, too
    heard = beats(manager.messages(2.5))
    assert len(heard) >= 8
    assert max(after - before for before, after in zip(heard, heard[1:], strict=False)) < WATCHDOG_S


def test_a_stopped_daemon_is_not_heard_of(manager, watched):
    manager.next("WATCHDOG", "1")
    os.kill(watched.pid, signal.SIGSTOP)
    try:
        manager.messages(0.1)  # what was on its way
        assert manager.messages(2 * WATCHDOG_S) == []
    finally:
        os.kill(watched.pid, signal.SIGCONT)
    manager.next("WATCHDOG", "1", seconds=WATCHDOG_S)


def test_a_hung_loop_is_caught_though_every_other_thread_goes_on(manager, watched):
    """The first thread runs the loop; readers and assemblers are others."""
    manager.next("WATCHDOG", "1")
    assert len(os.listdir(f"/proc/{watched.pid}/task")) > 1
    try:
        with stopped_thread(watched.pid):
            manager.messages(0.1)
            assert manager.messages(2 * WATCHDOG_S) == []
    except OSError as error:
        pytest.skip(str(error))
    manager.next("WATCHDOG", "1", seconds=WATCHDOG_S)


def test_without_a_watchdog_only_news_are_told(daemons, manager):
    daemons.start(env={"NOTIFY_SOCKET": manager.path})
    manager.next("READY")
    manager.messages(1.5)  # the client that asked whether the daemon answers has gone
    assert manager.messages(2.5) == []


def test_a_watchdog_time_of_another_process_is_not_ours(daemons, manager):
    daemons.start(env={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": 300_000, "WATCHDOG_PID": os.getpid()})
    manager.next("READY")
    assert beats(manager.messages(1.5)) == []


def test_a_manager_that_has_gone_harms_nobody(daemons, id_set):
    daemon = daemons.start(env={"NOTIFY_SOCKET": daemons.folder / "nobody", "WATCHDOG_USEC": 300_000})
    daemons.run(id_spec(id_set(40)), daemon)
    assert daemon.stop() == 0


def test_the_manager_of_a_job_hears_nothing_of_the_private_daemon_that_it_starts(daemons, manager, few_photos):
    """A job's service must not be taken for ready because its loader is."""
    environment = daemons.environment | {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "300000",
                                         "SPEEDYLOADER_PRIVATE_NAME": daemons.mark[:12]}
    kept, daemons.environment = daemons.environment, environment
    try:
        status, result, err = daemons.try_run(few_photos, None)
    finally:
        daemons.environment = kept
    assert status == 0, err
    assert result["accounted"] is True
    assert manager.messages(1.0) == []
