"""Status, trace and reports name what is the caller's own; the daemon's own user and root see everything, the
others how much there is besides."""

import json
import subprocess

from support.daemon import PROGRAMS, wait_for
from support.specs import id_spec
from support.users import as_user
from users import ALICE, BOB, SERVICE

ENDLESS = 100_000


def begin(peers, daemon, id_set):
    """Alice and Bob stream different folders for ever."""
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    alice.open(id_spec(id_set(30), batch=10, epochs=ENDLESS))
    bob.open(id_spec(id_set(40), batch=10, epochs=ENDLESS))
    for peer in (alice, bob):
        peer.next()
    return alice, bob


def test_a_users_status_and_trace_name_nothing_of_another_user(service, peers, id_set):
    daemon = service()
    alice, bob = begin(peers, daemon, id_set)
    everything = daemon.status()
    assert everything["others"] == {"sessions": 0, "scans": 0, "streams": 0}
    assert {stream["dataset"] for stream in everything["streams"]} == {str(id_set(30)), str(id_set(40))}
    for peer, own, other in ((alice, 30, 40), (bob, 40, 30)):
        seen = peer.status()
        text = json.dumps(seen)
        assert str(id_set(own)) in text and str(id_set(other)) not in text
        assert {session["uid"] for session in seen["sessions"]} == {peer.uid}
        assert seen["others"] == {"sessions": 1, "scans": 0, "streams": 1}
        assert {worker["uid"] for worker in seen["workers"]} == {peer.uid} and len(seen["workers"]) == 2
        assert [domain["uid"] for domain in seen["domains"]] == [peer.uid]
        own_streams = [stream["id"] for stream in seen["streams"]]
        assert len(own_streams) == 1 and peer.traced_streams() == own_streams
        totals = ("budget", "reserved", "input_capacity")  # everybody's
        assert [seen["memory"][name] for name in totals] == [everything["memory"][name] for name in totals]
    for peer in (peers(daemon, 0), peers(daemon, SERVICE)):
        assert len(peer.status()["streams"]) == 2 and len(peer.traced_streams()) == 2


def test_what_a_user_did_is_not_shown_once_the_stream_is_gone(service, peers, id_set):
    daemon = service()
    alice, bob = begin(peers, daemon, id_set)
    gone = alice.traced_streams()
    alice.close()
    alice.leave()
    wait_for(lambda: bob.status()["others"]["sessions"] == 0, 10)
    assert not set(gone) & set(bob.traced_streams())
    assert gone == peers(daemon, ALICE).traced_streams()


def test_totals_and_servers_are_sums_over_the_users_that_stream(service, peers, id_set):
    daemon = service()
    alice, bob = begin(peers, daemon, id_set)
    status = daemon.status()
    assert len(status["workers"]) == 6 and status["stages"]["decode"]["servers"] == 4  # the home crew rests
    assert alice.status()["stages"]["decode"]["servers"] == 2
    domains = status["domains"]
    assert status["memory"]["input_capacity"] == sum(domain["input_capacity"] for domain in domains)
    decoded = [peer.status()["stages"]["decode"]["samples"] for peer in (alice, bob)]
    assert min(decoded) >= 10
    assert daemon.status()["stages"]["decode"]["samples"] >= sum(decoded)
    assert status["cpu_seconds"] > status["daemon_cpu_seconds"]


def test_verdict_and_top_work_for_a_user_beside_another(service, peers, daemons, id_set):
    daemon = service(env={"SPEEDYLOADER_TEST_DELAY_US": 3000})
    alice, bob = peers(daemon, ALICE), peers(daemon, BOB)
    for peer, count in ((alice, 30), (bob, 40)):
        peer.open(id_spec(id_set(count), batch=10, epochs=60))
        peer.begin("finish")

    def ask(verb, *flags):
        command = [*as_user(ALICE), PROGRAMS / "speedyctl", verb, "--socket", daemon.socket, *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60,
                              env=daemons.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    verdict = json.loads(ask("verdict", "--seconds", "1", "--json"))
    assert verdict["bottleneck"] == "decode" and len(verdict["streams"]) == 1
    picture = ask("top", "--once")
    assert "other users: 1 clients  1 streams" in picture and str(id_set(40)) not in picture
    for peer in (alice, bob):
        peer.end()
