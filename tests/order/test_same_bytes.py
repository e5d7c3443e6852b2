"""The bytes of an epoch depend on the spec, and on nothing that a machine or a moment brings (LDR-04)."""

import pytest

from support.daemon import Daemons
from support.specs import spec

EPOCHS = 2


@pytest.fixture(scope="module", params=["pillow", "fast"])
def job(request, photos):
    return spec(photos, profile=request.param, epochs=EPOCHS, seed=5)


@pytest.fixture(scope="module")
def expected(job):
    """Hashes and ids of the spec, from a daemon with one worker that reads with threads."""
    with Daemons() as daemons:
        return daemons.run(job, daemons.start("--io", "threads", workers=1))


@pytest.mark.parametrize("workers, flags, env", [
    (2, ["--io", "uring"], {}),
    (4, ["--io", "uring"], {"SPEEDYLOADER_TEST_DELAY_US": 3000}),
    (2, ["--io", "threads"], {"SPEEDYLOADER_SIMD": "off"}),
], ids=["2-workers-uring", "4-workers-with-random-delays", "2-workers-threads-no-SIMD"])
def test_LDR_04_an_epoch_hashes_the_same_however_it_is_run(daemons, job, expected, workers, flags, env):
    daemon = daemons.start(*flags, workers=workers, env=env)
    got = daemons.run(job, daemon)
    assert daemon.status()["backend"] == flags[1]
    assert got["epoch_hashes"] == expected["epoch_hashes"]
    assert got["ids"] == expected["ids"]


def test_a_second_run_in_the_same_daemon_hashes_the_same(daemons, daemon, job, expected):
    """Its predictor has learnt, so its lanes differ."""
    for _ in range(2):
        assert daemons.run(job, daemon)["epoch_hashes"] == expected["epoch_hashes"]


def test_two_epochs_and_two_seeds_have_different_bytes(daemons, daemon, job, expected):
    assert len(set(expected["epoch_hashes"])) == EPOCHS
    other = daemons.run(job, daemon, "--seed", 6)
    assert not set(other["epoch_hashes"]) & set(expected["epoch_hashes"])


def test_the_two_profiles_do_not_give_the_same_bytes(daemons, daemon, photos):
    hashes = {daemons.run(spec(photos, profile=profile), daemon)["hash"] for profile in ("pillow", "fast")}
    assert len(hashes) == 2
