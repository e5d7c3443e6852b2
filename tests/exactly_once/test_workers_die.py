"""Workers are killed in the middle of things, and every sample comes exactly once all the same (LDR-05)."""

import json
import os
import random
import signal

import test_card
from support.capi import Client
from support.daemon import wait_for
from support.specs import id_spec

COUNT = 5000
EPOCHS = 3
KILLS = 50


def kill_workers(daemon, client, at_half):
    """SIGKILLs a random worker whenever the stream has come past one of KILLS random places, and waits until
    the daemon knows. Calls at_half() once in between."""
    source = random.Random(20260801)
    places = sorted(source.sample(range(100, COUNT * EPOCHS - 1000), KILLS))
    for number, place in enumerate(places):
        if number == KILLS // 2:
            at_half()
        wait_for(lambda: client.poll() is not None or progress(daemon) >= place, 60)
        assert client.poll() is None, "the stream ended before all workers were killed"
        os.kill(source.choice(wait_for(daemon.worker_pids, 10)), signal.SIGKILL)
        wait_for(lambda: daemon.status()["worker_deaths"] == number + 1, 10)


def progress(daemon):
    """Samples of the stream that has come farthest."""
    return max((stream["samples"] for stream in daemon.status()["streams"]), default=0)


def test_LDR_05_three_epochs_are_whole_while_50_workers_and_a_client_beside_are_killed(daemons, id_set):
    job = id_spec(id_set(COUNT), batch=50, epochs=EPOCHS, seed=4)
    undisturbed = daemons.run(job, daemons.start())

    daemon = daemons.start(env={"SPEEDYLOADER_TEST_DELAY_US": 600})
    neighbour = daemons.begin(id_spec(id_set(COUNT), batch=8, epochs=100_000), daemon)
    wait_for(lambda: [s for s in daemon.status()["streams"] if s["batches"] > 3])
    idle = daemon.status()["memory"]["reserved"] - daemon.status()["streams"][0]["memory_bytes"]
    survivor = daemons.begin(job, daemon, "--hash", "--ids")
    wait_for(lambda: len(daemon.status()["streams"]) == 2)
    ours = max(stream["id"] for stream in daemon.status()["streams"])

    def only_ours_is_left():
        status = daemon.status()
        streams = status["streams"]
        return ([stream["id"] for stream in streams] == [ours] and
                status["memory"]["reserved"] == idle + streams[0]["memory_bytes"])

    def kill_neighbour():
        neighbour.kill()
        wait_for(only_ours_is_left, 2, "the dead client's stream and its memory")

    kill_workers(daemon, survivor, kill_neighbour)
    out, err = survivor.communicate(timeout=120)
    assert survivor.returncode == 0, err + daemon.log()
    result = json.loads(out)
    assert [sorted(ids) for ids in result["ids"]] == [list(range(COUNT))] * EPOCHS
    assert result["epoch_hashes"] == undisturbed["epoch_hashes"]
    assert result["failed"] == 0


def test_LDR_05_a_file_that_kills_its_worker_twice_is_poison_and_the_rest_is_delivered(daemons, open_folder):
    test_card.id_pictures(open_folder, 60)
    victim = sorted(open_folder.glob("*/*.png"))[17]
    victim.write_bytes(b"SL-TEST-ABORT")
    daemon = daemons.start()
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(open_folder, batch=10, errors={"policy": "placeholder"}))
        valid = [i for batch in stream.batches() for i, flag in zip(batch.ids(), batch.valid()) if flag]
        report = stream.report()
        stream.close()
    assert sorted(valid) == [i for i in range(60) if i != 17]
    (failure,) = report["failures"]
    assert (failure["kind"], failure["sample_id"], failure["path"]) == ("poison", 17, str(victim))
    assert daemon.status()["worker_deaths"] == 2
    wait_for(lambda: len(daemon.worker_pids()) == 2, 10, "new workers")
