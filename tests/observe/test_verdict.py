"""`speedyctl verdict` on real daemons whose bottleneck is known: it was made.

Jobs that work sleep, as a job on a GPU leaves the processor alone. A slow store is a FUSE mount that answers late;
slow assembly is a delay that test builds have (it is fast otherwise: memory speed).
"""

import json
import os

import fuse_folder
import pytest
import test_card
from support.daemon import wait_for
from support.specs import id_spec, spec

from consumers import FOREVER, Job

LOOK = ("--json", "--seconds", 2)


@pytest.fixture
def verdict(daemons):
    def ask(daemon, *flags):
        return json.loads(daemons.ask(daemon, "verdict", *LOOK, *flags))
    return ask


def test_a_job_that_works_long_on_each_batch_is_the_bottleneck(daemons, photos, verdict):
    daemon = daemons.start()
    with Job(daemon, spec(photos, batch=4, epochs=FOREVER), step=0.1) as job:
        job.warm(4)
        found = verdict(daemon)
    assert found["bottleneck"] == "consumer" and found["loading_is_the_bottleneck"] is False, found
    assert found["wait_share"] < 0.05
    assert found["one_more_worker"]["gain"] == 1
    # 4 samples in 100 ms and more, and loading could give many more than that.
    assert 10 < found["samples_per_s"] <= 43
    assert found["loader_at_most_samples_per_s"] > 2 * found["samples_per_s"]
    assert "not the bottleneck" in found["text"][0]


def test_a_job_that_takes_all_at_once_is_held_up_by_decoding(daemons, photos, verdict):
    daemon = daemons.start()
    with Job(daemon, spec(photos, size=(224, 224), batch=16, epochs=FOREVER)) as job:
        job.warm(8)
        found = verdict(daemon)
    assert found["bottleneck"] == "decode" and found["saturated"] is True, found
    assert found["wait_share"] > 0.05
    decode = found["stages"]["decode"]
    assert decode["servers"] == 2 and decode["utilisation"] >= 0.85
    # U = X D / servers, though what was delivered is not quite what was decoded.
    law = found["samples_per_s"] * decode["ms_per_sample"] / 1000 / decode["servers"]
    assert law == pytest.approx(decode["utilisation"], rel=0.25)
    assert 1 <= found["one_more_worker"]["gain"] <= 1.6
    assert found["one_more_core"]["gain"] > 1
    assert "core" in found["text"][2] or "worker" in found["text"][2]


def test_with_a_worker_more_a_sleeping_decode_is_as_much_faster_as_was_said(daemons, id_set, verdict):
    """The decode takes time and no processor, so that a worker more is worth one whatever the machine."""
    def start(workers):
        return daemons.start(workers=workers, env={"SPEEDYLOADER_TEST_DELAY_US": 20_000})  # 10 ms on average

    document = id_spec(id_set(60), batch=4, epochs=FOREVER)
    with Job(daemon := start(1), document) as job:
        job.warm(4)
        one = verdict(daemon)
    assert one["bottleneck"] == "decode", one
    daemon.stop()
    most = one["stages"]["decode"]["at_most_samples_per_s"]
    idle = min(1, one["idle_cores"])  # somebody else may be busy here; then less is promised
    assert one["one_more_worker"]["samples_per_s"] == pytest.approx((1 + idle) * most, rel=0.05)
    with Job(daemon := start(2), document) as job:
        job.warm(4)
        two = verdict(daemon)
    assert two["samples_per_s"] == pytest.approx(2 * most, rel=0.25)


@pytest.fixture
def slow_store(open_folder):
    pytest.importorskip("fusepy", reason="python3-fusepy is not installed")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    test_card.id_pictures(open_folder, 60)
    with fuse_folder.Mount(open_folder) as mounted:
        if mounted.trouble is not None:
            pytest.skip(f"cannot mount: {mounted.trouble.strip()[-200:]}")
        mounted.rule("all", on="read", takes=0.05)
        yield mounted.folder


@pytest.mark.parametrize("back_end", ["uring", "threads"])
def test_a_store_that_answers_late_makes_it_reading(daemons, slow_store, verdict, back_end):
    daemon = daemons.start("--io", back_end)
    with Job(daemon, id_spec(slow_store, batch=4, epochs=FOREVER)) as job:
        job.warm(2)
        found = verdict(daemon)
    assert found["bottleneck"] == "read", found
    assert found["stages"]["decode"]["utilisation"] < 0.3
    assert found["reads_under_way"] >= 1
    assert found["one_more_worker"]["gain"] == found["one_more_core"]["gain"] == 1
    assert "faster storage" in found["text"][2]


def test_slow_rows_make_it_assembly(daemons, id_set, verdict):
    daemon = daemons.start(env={"SPEEDYLOADER_TEST_ROW_DELAY_US": 5000})
    with Job(daemon, id_spec(id_set(60), batch=4, epochs=FOREVER)) as job:
        job.warm(8)
        found = verdict(daemon)
    assert found["bottleneck"] == "assemble" and found["saturated"] is True, found
    assert found["samples_per_s"] < 200


def test_a_job_that_has_gone_leaves_nothing_to_judge(daemons, few_photos):
    daemon = daemons.start()
    with Job(daemon, spec(few_photos, epochs=1)) as job:
        job.warm(1)
    wait_for(lambda: not daemon.status()["streams"])
    assert "nothing to judge" in daemons.ask(daemon, "verdict", "--seconds", "0.1")
