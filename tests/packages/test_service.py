"""The installed service under a real systemd: started by its first client, confined, restarted, never out of reach.

systemd is process 1 of name spaces of its own (boot.sh); where that is not allowed these tests are skipped. They use one
machine, in their order. Clients run as the service's own user, whom no root needs to be configured for.
"""

import json
import os

import pytest
from machine import Machine, shared_folder
from support.daemon import wait_for

CLIENT = ["setpriv", "--reuid=speedyloader", "--regid=speedyloader", "--clear-groups", "speedyctl"]
SOCKET = "/run/speedyloader/speedyloader.sock"


@pytest.fixture(scope="module")
def booted(packages, few_photos, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("only root can start a systemd of its own")
    made = Machine(tmp_path_factory.mktemp("boot") / "machine", shared_folder(tmp_path_factory, packages, few_photos),
                   boot=True)
    try:
        wait_for(lambda: made.ended() or made.try_run("systemctl", "show").returncode == 0, 60)
        if made.ended():
            pytest.skip(f"no systemd of its own: {made.ended()}")
        made.run("systemctl", "start", "speedyloaderd.socket")
        yield made
    finally:
        made.close()


def show(machine, name):
    return machine.run("systemctl", "show", "-P", name, "speedyloaderd.service").strip()


def epoch(machine):
    result = json.loads(machine.run(*CLIENT, "run", "/mnt/photos", "--json", "--socket", SOCKET))
    assert result["accounted"] is True


def running(machine, but=0, seconds=20):
    """The daemon's process id, another one than `but`, once it is ready."""
    def look():
        return show(machine, "ActiveState") == "active" and int(show(machine, "MainPID"))
    return wait_for(lambda: (pid := look()) and pid != but and pid, seconds,
                    lambda: machine.run("systemctl", "status", "--no-pager", "speedyloaderd.service"))


def test_the_first_client_starts_the_service(booted):
    assert show(booted, "ActiveState") == "inactive"
    epoch(booted)
    assert show(booted, "ActiveState") == "active"
    wait_for(lambda: show(booted, "StatusText") == "0 clients, 0 streams", 5, lambda: show(booted, "StatusText"))


def test_the_service_is_confined_and_all_works_in_there(booted):
    status = booted.run("cat", f"/proc/{running(booted)}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    user = booted.run("id", "--user", "speedyloader").strip()
    assert fields["Uid"].split() == [user] * 4
    assert (int(fields["CapEff"], 16), int(fields["CapBnd"], 16)) == (0, 0)
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    daemon = json.loads(booted.run(*CLIENT, "status", "--json", "--socket", SOCKET))
    assert daemon["backend"] == "uring"
    assert daemon["manifests_used"] + daemon["scans_made"] > 0


def test_scans_are_kept_in_the_folder_of_the_service(booted):
    owner = booted.run("stat", "-c", "%U %a", "/var/cache/speedyloader").strip()
    assert owner == "speedyloader 700"
    assert "manifests" in booted.run("ls", "/var/cache/speedyloader")


def test_a_restart_is_orderly_and_the_next_client_meets_the_new_daemon(booted):
    before = running(booted)
    booted.run("systemctl", "restart", "speedyloaderd.service")
    assert running(booted, but=before) != before
    assert (show(booted, "Result"), show(booted, "NRestarts")) == ("success", "0")
    epoch(booted)


def test_a_killed_daemon_is_started_again(booted):
    before = running(booted)
    booted.run("kill", "-KILL", before)
    running(booted, but=before)
    assert show(booted, "NRestarts") == "1"
    epoch(booted)


def test_a_hung_daemon_is_killed_by_the_watchdog_and_started_again(booted):
    before = running(booted)
    booted.run("kill", "-STOP", before)
    running(booted, but=before)
    assert show(booted, "NRestarts") == "2"
    assert "watchdog" in booted.run("journalctl", "--unit=speedyloaderd", "--no-pager").lower()
    epoch(booted)


def test_a_stopped_service_is_started_by_the_next_client(booted):
    booted.run("systemctl", "stop", "speedyloaderd.service")
    assert show(booted, "ActiveState") == "inactive"
    assert show(booted, "Result") == "success"
    epoch(booted)
