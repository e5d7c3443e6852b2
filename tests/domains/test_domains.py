"""Each user's samples are decoded by worker processes of that user's own, which map no other user's memory, and
what befalls them befalls nobody else (trust domains, LDR-05)."""

import itertools
import os
import pathlib
import re
import signal

import pytest

import test_card
from users import ALICE, BOB, SERVICE, Failed, memory_of, workers_of
from support.daemon import PROGRAMS, wait_for
from support.specs import id_spec, spec

MIB = 1 << 20
ENDLESS = 100_000
SLOWED = {"SPEEDYLOADER_TEST_DELAY_US": 2000}


def all_pixels(few_photos, seed=0, epochs=1):
    return spec(few_photos, size=(96, 96), batch=8, seed=seed, epochs=epochs)


def test_two_users_who_stream_at_once_get_the_bytes_that_each_gets_alone(service, peers, few_photos):
    jobs = {ALICE: all_pixels(few_photos, seed=1, epochs=8), BOB: all_pixels(few_photos, seed=2, epochs=8)}
    alone = {}
    for uid, job in jobs.items():
        peer = peers(service(), uid)
        peer.open(job)
        alone[uid] = peer.finish()
        assert len(alone[uid]["ids"]) == 8 * 40
    both = service()
    together = [peers(both, uid) for uid in jobs]
    for peer in together:
        peer.open(jobs[peer.uid])
    for peer in together:
        peer.begin("finish")
    for peer in together:
        assert peer.end() == alone[peer.uid]
    assert alone[ALICE]["hash"] != alone[BOB]["hash"]


def names_of(pid):
    return {re.search(r"speedyloader-(\w+)", name)[1] for name in memory_of(pid).values()}


def test_no_worker_has_memory_of_another_users_stream(service, peers, few_photos):
    daemon = service()
    users = [peers(daemon, ALICE), peers(daemon, BOB)]
    for peer in users:
        peer.open(all_pixels(few_photos, epochs=ENDLESS))
        peer.next()
    workers = {peer.uid: workers_of(daemon, peer.uid) for peer in users}
    assert [len(pids) for pids in workers.values()] == [2, 2] and len(set(sum(workers.values(), []))) == 4
    for pid in itertools.chain(*workers.values()):
        wait_for(lambda pid=pid: {"worker", "input", "samples"} <= names_of(pid), 10)  # it is no slow starter
    memory = {peer.uid: [memory_of(pid) for pid in workers[peer.uid]] for peer in users}
    clients = {peer.uid: memory_of(peer.process.pid) for peer in users}
    for one, other in ((ALICE, BOB), (BOB, ALICE)):
        others = set().union(*memory[other], clients[other])
        for found in memory[one]:
            assert not set(found) & others
        assert clients[one] and not set(clients[one]) & others
    home = set().union(*(memory_of(pid) for pid in workers_of(daemon, SERVICE)))
    assert home and not home & set().union(*memory[ALICE], *memory[BOB])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_another_users_workers_killed_or_hung_cost_this_user_nothing(service, peers, id_set, how):
    daemon = service(env=SLOWED | {"SPEEDYLOADER_TEST_JOB_LIMIT_S": 2})
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    alice.open(id_spec(id_set(40), batch=10, epochs=ENDLESS))
    alice.next()
    bob.open(id_spec(id_set(40), batch=10, epochs=20))
    bob.next()
    mine = workers_of(daemon, BOB)
    for pid in workers_of(daemon, ALICE):
        os.kill(pid, how)
    done = bob.finish()
    assert done["failures"] == [] and len(done["ids"]) == 20 * 40 - 10
    assert workers_of(daemon, BOB) == mine
    wait_for(lambda: daemon.status()["worker_deaths"] == 2, 20)
    deaths = {domain["uid"]: domain["worker_deaths"] for domain in daemon.status()["domains"]}
    assert (deaths[ALICE], deaths[BOB]) == (2, 0)
    alice.next()  # hers are there again


def test_workers_that_cannot_be_started_end_the_streams_of_their_user_only(service, peers, id_set,
                                                                              open_folder):
    program = open_folder / "worker"
    program.symlink_to(PROGRAMS / "speedyloader-worker")
    daemon = service("--worker-program", program, env=SLOWED)
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    for peer in (alice, bob):
        peer.open(id_spec(id_set(40), batch=10, epochs=20))
        peer.next()
    program.unlink()
    for pid in workers_of(daemon, ALICE):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(Failed, match="cannot start"):
        alice.finish()
    assert len(bob.finish()["ids"]) == 20 * 40 - 10


def test_after_a_users_last_stream_the_workers_leave_and_all_memory_returns(service, peers, few_photos):
    daemon = service("--input", "64MiB")
    base = daemon.status()["memory"]
    assert base["reserved"] == base["input_capacity"] == 64 * MIB
    before = len(daemon.descriptors())
    alice = peers(daemon, ALICE)
    alice.open(all_pixels(few_photos))
    pids = workers_of(daemon, ALICE)
    assert daemon.status()["memory"]["input_capacity"] == 128 * MIB
    alice.finish()
    alice.open(all_pixels(few_photos))  # the next stream finds the same workers
    alice.finish()
    assert workers_of(daemon, ALICE) == pids
    alice.leave()
    wait_for(lambda: daemon.status()["memory"] == base, 20)
    wait_for(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), 10)
    # Fewer, if a client was still there; one more, for the bell of the threads that open other users' files.
    wait_for(lambda: len(daemon.descriptors()) <= before + 1, 10, lambda: f"{before}: {daemon.descriptors()}")
    status = daemon.status()
    assert [domain["uid"] for domain in status["domains"]] == [SERVICE] and status["worker_deaths"] == 0
    assert len(workers_of(daemon, SERVICE)) == 2


def test_a_domain_that_does_not_fit_the_budget_is_refused_with_both_numbers(service, peers, few_photos):
    daemon = service("--input", "96MiB", memory="256MiB")
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    alice.open(all_pixels(few_photos, epochs=ENDLESS))
    with pytest.raises(Failed) as refused:
        bob.open(all_pixels(few_photos))
    assert refused.value.code == "SL_E_BUDGET" and f"user {BOB}" in str(refused.value)
    needed, available, total = map(int, re.findall(r"\((\d+) bytes\)", str(refused.value)))
    assert needed == 96 * MIB and available < 64 * MIB and total == 256 * MIB
    assert workers_of(daemon, BOB) == []
    alice.next()
    alice.close()
    # Her workers still wait for a next stream, but not at the cost of somebody who needs the room.
    bob.open(all_pixels(few_photos))
    assert workers_of(daemon, ALICE) == []
    assert len(bob.finish()["ids"]) == 40


def test_a_bad_file_is_known_as_bad_to_the_user_whose_workers_said_so_only(service, peers, open_folder):
    test_card.id_pictures(open_folder, 20)
    bad = sorted(open_folder.glob("*/*.png"))[7]
    bad.write_bytes(b"SL-TEST-ABORT")
    daemon = service(workers=1)
    job = id_spec(open_folder, batch=10, errors={"policy": "placeholder"})

    def run(peer):
        peer.open(job)
        assert peer.finish()["failures"] == [["poison", str(bad)]]
        return daemon.status()["worker_deaths"]

    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    assert run(alice) == 2
    assert run(alice) == 2  # known
    assert run(bob) == 4    # found out anew, by his own workers


def test_root_is_served_by_the_workers_of_the_daemons_own_user(service, daemons, few_photos):
    daemon = service()
    assert daemons.run(all_pixels(few_photos), daemon)["samples"] == 40
    assert [domain["uid"] for domain in daemon.status()["domains"]] == [SERVICE]
    assert sum(worker["completed"] for worker in daemon.status()["workers"]) == 40
