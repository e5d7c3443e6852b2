"""Clients hold their batches or end, and others and the daemon go on as before (LDR-08; kills by the hundred are in
tests/kills)."""

import pathlib

from support.daemon import marked, wait_for
from support.specs import id_spec

HOLD = pathlib.Path(__file__).with_name("hold.py")


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
