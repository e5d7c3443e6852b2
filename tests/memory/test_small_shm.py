"""A /dev/shm of 64 MB, as containers have it, bounds nothing: all memory is anonymous (LDR-09)."""

import os
import subprocess

import pytest

from support.daemon import clean_environment, wait_for
from support.specs import spec

SMALL = "mount -t tmpfs -o size=64m tmpfs /dev/shm && "
FULL = SMALL + "{ head -c 100m /dev/zero >/dev/shm/full 2>/dev/null; true; } && "
MIB = 1 << 20


def in_private_mounts(script):
    return ["unshare", "-m", "sh", "-c", script + 'exec "$@"', "sh"]


@pytest.fixture(scope="module", autouse=True)
def mounts_allowed():
    tried = subprocess.run([*in_private_mounts(SMALL), "true"], capture_output=True, text=True,
                           env=clean_environment())
    if tried.returncode != 0:
        pytest.skip("a private mount of /dev/shm is refused here: " + tried.stderr.strip())


@pytest.mark.parametrize("script", [SMALL, FULL], ids=["64-MB", "64-MB-and-full"])
def test_LDR_09_a_ring_larger_than_dev_shm_serves_whole_epochs_and_nobody_gets_SIGBUS(daemons, few_photos,
                                                                                    script):
    job = spec(few_photos, size=(224, 224), batch=40, epochs=6)
    wanted = daemons.run(job, daemons.start())
    daemon = daemons.start(wrap=in_private_mounts(script))
    limit = os.statvfs(f"/proc/{daemon.pid}/root/dev/shm")
    assert limit.f_blocks * limit.f_frsize == 64 * MIB
    client = daemons.begin(job, daemon, "--hash")
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    assert str(wanted["hash"]) in out
    assert daemon.is_alive() and daemon.status()["worker_deaths"] == 0


def test_LDR_09_another_process_that_fills_dev_shm_during_the_run_ends_nobody(daemons, few_photos):
    job = spec(few_photos, size=(224, 224), batch=40, epochs=30)
    wanted = daemons.run(job, daemons.start())
    daemon = daemons.start(wrap=in_private_mounts(SMALL))
    client = daemons.begin(job, daemon, "--hash")
    wait_for(lambda: [stream for stream in daemon.status()["streams"] if stream["batches"] > 1])
    inside = ["nsenter", "--mount", "--target", str(daemon.pid)]
    full = subprocess.run([*inside, "dd", "if=/dev/zero", "of=/dev/shm/full", "bs=1M", "count=100"],
                          stderr=subprocess.PIPE)
    assert b"No space left" in full.stderr
    assert client.poll() is None, "it ended before the file system was full"
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    assert str(wanted["hash"]) in out
    assert daemon.is_alive() and daemon.status()["worker_deaths"] == 0
