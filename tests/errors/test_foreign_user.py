"""A client of another user gets what it is given to read and nothing else, whatever it tries; and of the same user, what
the seals leave. The attempts are those of support/intruder.py."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from support.daemon import clean_environment
from support.specs import id_spec
from support.users import as_user, root

TESTS = pathlib.Path(__file__).parents[1]
OWNER = 65534
STRANGER = 61234
REFUSED = {"EACCES", "EPERM", "EBADF", "EINVAL"}
# Harmless to the daemon, which reads that page a word at a time: it is the client's own.
OWN_PAGE = {"returns: write", "returns: map to write", "returns: mprotect to write", "returns: punch a hole"}


def intrude(daemon, uid, job, processes=()):
    """The outcome of every attempt of a client of this user."""
    command = [*as_user(uid), sys.executable, "-m", "support.intruder", daemon.socket, json.dumps(job), *processes]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, cwd=TESTS,
                          env=clean_environment(PYTHONPATH=TESTS))
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}{daemon.log()}"
    return json.loads(done.stdout)


@pytest.fixture
def shared(daemons, as_nobody, id_set):
    """A daemon of one user that others may reach, and read a dataset through."""
    if subprocess.run([*as_user(STRANGER), "test", "-r", TESTS / "support" / "intruder.py"]).returncode != 0:
        pytest.skip("the tests' folder is closed to other users")
    config = daemons.folder / "shared.toml"
    config.write_text(root(id_set(40), STRANGER) + "[limits]\nconnects = 0\n")
    daemon = daemons.start("--config", config, wrap=as_nobody)
    os.chmod(daemon.socket, 0o666)
    return daemon


def run(daemons, daemon, job):
    return daemons.run(job, daemon, wrap=as_user(OWNER))["hash"]


def goes_on(daemons, daemon, job, wanted):
    assert daemon.is_alive()
    assert daemon.status()["worker_deaths"] == 0
    assert run(daemons, daemon, job) == wanted


def test_LDR_18_a_foreign_user_may_map_and_neither_write_nor_reach_anything_else(daemons, shared, id_set):
    job = id_spec(id_set(40))
    wanted = run(daemons, shared, job)
    results = intrude(shared, STRANGER, job, [shared.pid, shared.worker_pids()[0]])
    assert len(results) > 50
    assert {name for name, what in results.items() if what == "ok"} == {"batches: map to read"} | OWN_PAGE
    assert set(results.values()) <= REFUSED | {"ok"}
    goes_on(daemons, shared, job, wanted)


def test_a_process_of_the_daemons_user_cannot_change_batches_either(daemons, shared, id_set):
    job = id_spec(id_set(40))
    wanted = run(daemons, shared, job)
    results = intrude(shared, OWNER, job)
    # The owner of a file may change its mode and open it to write; the seals stand.
    assert results["owner's: write"] == results["owner's: map to write"] == "EPERM"
    may = {f"{name}: {what}" for name in ("batches", "owner's") for what in (
        "map to read", "change its mode", "change its owner", "lease", "re-open to write", "re-open only to write")}
    succeeded = {name for name, what in results.items() if what == "ok"}
    assert {name for name in succeeded if name.startswith(("batches: ", "owner's: "))} <= may
    goes_on(daemons, shared, job, wanted)
