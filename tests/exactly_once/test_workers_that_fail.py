"""Workers that crash in a row, cannot be started, hang, or hear of many streams at once: the pool comes back,
every sample is delivered or told, and no stream waits for ever (LDR-05)."""

import contextlib
import os
import resource
import signal

import pytest
import test_card
from support.capi import Client, Error
from support.daemon import PROGRAMS, wait_for
from support.specs import id_spec

COUNT = 40


def spoil(folder, numbers, content):
    """Writes content over the pictures with these ids; their paths."""
    pictures = sorted(folder.glob("*/*.png"))
    for number in numbers:
        pictures[number].write_bytes(content)
    return [str(pictures[number]) for number in numbers]


def deliver(client, folder, **options):
    """Runs a stream with placeholders to its end: (ids of the pictures that came, failures)."""
    stream = client.open(id_spec(folder, batch=10, errors={"policy": "placeholder"}, **options))
    came = [i for batch in stream.batches() for i, flag in zip(batch.ids(), batch.valid()) if flag]
    failures = stream.report()["failures"]
    stream.close()
    return sorted(came), failures


def kill_worker(daemon, pid):
    deaths = daemon.status()["worker_deaths"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: daemon.status()["worker_deaths"] > deaths, 10)


def test_LDR_05_six_neighbouring_poison_files_do_not_end_the_pool(daemons, open_folder):
    test_card.id_pictures(open_folder, COUNT)
    bad = list(range(5, 11))
    paths = spoil(open_folder, bad, b"SL-TEST-ABORT")
    daemon = daemons.start(workers=1)
    with Client(daemon.socket) as client:
        came, failures = deliver(client, open_folder, shuffle=False)
        assert came == [i for i in range(COUNT) if i not in bad]
        assert sorted((f["kind"], f["path"]) for f in failures) == [("poison", path) for path in paths]
        assert daemon.status()["worker_deaths"] == 2 * len(bad)


def test_LDR_05_a_worker_that_cannot_be_started_is_told_and_started_when_it_can(daemons, id_set):
    daemon = daemons.start(workers=1, env={"SPEEDYLOADER_TEST_DELAY_US": 2000})
    (worker,) = daemon.worker_pids()
    limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(id_set(COUNT), batch=10, epochs=100_000))
        stream.next()[1].release()
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(Error) as told:
            for batch in stream.batches():
                pass
        assert told.value.code == "SL_E_INTERNAL" and "Too many open files" in told.value.message
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, limits)
        stream.close()
        wait_for(daemon.worker_pids, 10, "a new worker")
        assert deliver(client, id_set(COUNT)) == (list(range(COUNT)), [])


def test_LDR_05_a_worker_program_that_ends_at_once_is_told_and_tried_until_it_works(daemons, open_folder,
                                                                                   id_set):
    broken = open_folder / "broken"
    program = open_folder / "worker"
    program.write_text(f'#!/bin/sh\n[ -e "{broken}" ] && exit 1\nexec "{PROGRAMS / "speedyloader-worker"}"\n')
    program.chmod(0o755)
    daemon = daemons.start("--worker-program", program, workers=1,
                           env={"SPEEDYLOADER_TEST_DELAY_US": 2000})
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(id_set(COUNT), batch=10, epochs=100_000))
        stream.next()[1].release()
        broken.touch()
        os.kill(wait_for(daemon.worker_pids)[0], signal.SIGKILL)
        with pytest.raises(Error, match="die as soon as they start"):
            for batch in stream.batches():
                pass
        stream.close()
        broken.unlink()
        wait_for(daemon.worker_pids, 10, "a worker that stays")
        wait_for(lambda: deliver(client, id_set(COUNT)) == (list(range(COUNT)), []))


def test_LDR_05_a_new_worker_hears_of_120_streams(daemons, id_set):
    daemon = daemons.start(workers=1, memory="2GiB")
    folder = id_set(COUNT)
    with Client(daemon.socket, "one") as one, Client(daemon.socket, "two") as two:
        streams = [client.open(id_spec(folder, batch=4, epochs=2, seed=number), slots=2)
                   for number in range(60) for client in (one, two)]
        kill_worker(daemon, daemon.worker_pids()[0])
        for stream in streams:
            ids = sorted(i for batch in stream.batches() for i in batch.ids())
            assert ids == sorted(list(range(COUNT)) * 2)
            stream.close()
        assert daemon.status()["worker_deaths"] == 1


def test_LDR_05_a_busy_worker_is_told_of_240_streams_and_lives(daemons, id_set):
    daemon = daemons.start(workers=1, memory="4GiB")
    (worker,) = daemon.worker_pids()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(daemon.socket)) for _ in range(4)]
        deliver(clients[0], id_set(COUNT))  # the worker has started
        os.kill(worker, signal.SIGSTOP)  # as if it were at a long job
        streams = [client.open(id_spec(id_set(COUNT), batch=4, seed=number), slots=2)
                   for client in clients for number in range(60)]
        for stream in streams[:180]:
            stream.close()
        os.kill(worker, signal.SIGCONT)
        for stream in streams[180:]:
            assert sorted(i for batch in stream.batches() for i in batch.ids()) == list(range(COUNT))
        assert daemon.worker_pids() == [worker] and daemon.status()["worker_deaths"] == 0


def test_LDR_05_a_sample_on_which_its_worker_hangs_twice_is_a_timeout(daemons, open_folder):
    test_card.id_pictures(open_folder, COUNT)
    (path,) = spoil(open_folder, [7], b"SL-TEST-HANG")
    daemon = daemons.start(env={"SPEEDYLOADER_TEST_JOB_LIMIT_S": 1})
    with Client(daemon.socket) as client:
        came, (failure,) = deliver(client, open_folder)
    assert came == [i for i in range(COUNT) if i != 7]
    assert (failure["kind"], failure["path"]) == ("timeout", path)
    assert daemon.status()["worker_deaths"] == 2


def test_LDR_05_a_worker_that_is_stopped_is_replaced_and_its_samples_come(daemons, id_set):
    daemon = daemons.start(workers=1, env={"SPEEDYLOADER_TEST_JOB_LIMIT_S": 1})
    with Client(daemon.socket) as client:
        deliver(client, id_set(COUNT))  # the worker has started
        os.kill(daemon.worker_pids()[0], signal.SIGSTOP)
        assert deliver(client, id_set(COUNT)) == (list(range(COUNT)), [])
    assert daemon.status()["worker_deaths"] == 1


def test_LDR_05_a_daemon_started_with_SIGCHLD_ignored_replaces_its_workers(daemons, id_set):
    daemon = daemons.start(workers=1, wrap=["env", "--ignore-signal=CHLD"])
    (worker,) = daemon.worker_pids()
    kill_worker(daemon, worker)
    assert worker not in wait_for(daemon.worker_pids, 10, "a new worker")
    with Client(daemon.socket) as client:
        assert deliver(client, id_set(COUNT)) == (list(range(COUNT)), [])
