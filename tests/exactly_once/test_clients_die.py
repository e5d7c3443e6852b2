"""Clients end in every way, and the daemon is as it was before (LDR-08)."""

import pathlib

from support.daemon import marked, shared_memory_names, wait_for
from support.specs import id_spec

HOLD = pathlib.Path(__file__).with_name("hold.py")
ROUNDS = 50


def held_state(daemon):
    """What a daemon without clients should always have again."""
    status = daemon.status()
    return {"streams": len(status["streams"]), "reserved": status["memory"]["reserved"],
            "input": status["memory"]["input_used"], "descriptors": len(daemon.descriptors())}


def test_LDR_08_50_clients_killed_with_leases_in_hand_leave_nothing_behind(daemons, daemon, id_set):
    job = daemons.spec_file(id_spec(id_set(500), batch=16, epochs=1000))
    before = wait_for(lambda: held_state(daemon))
    names = shared_memory_names()
    for first in range(0, ROUNDS, 5):
        clients = [daemons.begin_python(HOLD, daemon.socket, job, 3) for _ in range(5)]
        assert [client.stdout.readline() for client in clients] == ["holding\n"] * 5
        for client in clients:
            client.kill()
        wait_for(lambda: not daemon.status()["streams"], 2, "the slots of the dead")
    wait_for(lambda: held_state(daemon) == before, 2, lambda: (before, held_state(daemon)))
    assert shared_memory_names() == names
    assert daemon.status()["worker_deaths"] == 0


def test_a_client_that_holds_its_batches_stops_nobody_else(daemons, daemon, id_set):
    job = id_spec(id_set(500), batch=16, epochs=2)
    holder = daemons.begin_python(HOLD, daemon.socket, daemons.spec_file(job), 3)
    assert holder.stdout.readline() == "holding\n"
    daemons.run(job, daemon)
    out, _ = holder.communicate("go on\n", timeout=60)
    assert int(out) == 2 * 32


def test_the_private_daemon_is_gone_within_5_s_after_the_last_client(daemons, id_set):
    daemons.environment["SPEEDYLOADER_PRIVATE_NAME"] = daemons.mark[:12]
    client = daemons.begin(id_spec(id_set(40), epochs=1000), None)
    wait_for(lambda: "speedyloaderd" in marked(daemons.mark).values())
    client.kill()
    wait_for(lambda: not marked(daemons.mark), 5, lambda: marked(daemons.mark))
