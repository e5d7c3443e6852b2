"""Who stands in for a damaged sample is part of the plan, and a stream that loses too many stops (LDR-02)."""

import pytest

import test_card
from support.capi import Client, Error
from support.daemon import Daemons
from support.specs import id_spec

COUNT = 120
BAD = [3, 4, 5, 6, 30, 31, 64, 65, 66, 99, 100, 119]


@pytest.fixture(scope="module")
def folder(session_folder):
    made = session_folder / "some_are_damaged"
    for number, path in enumerate(test_card.id_pictures(made, COUNT)):
        if number in BAD:
            test_card.cut(path, path, share=0.7)
    return made


def batches_of(daemon, job):
    with Client(daemon.socket) as client:
        stream = client.open(job)
        taken = [batch.ids() for batch in stream.batches()]
        report = stream.report()
        stream.close()
    return taken, report


@pytest.fixture(scope="module")
def with_one_worker(folder):
    with Daemons() as daemons:
        return batches_of(daemons.start(workers=1), id_spec(folder, batch=10, epochs=2))


def test_the_substitutes_are_the_same_for_any_number_of_workers(daemons, folder, with_one_worker):
    daemon = daemons.start(workers=3, env={"SPEEDYLOADER_TEST_DELAY_US": 3000})
    batches, report = batches_of(daemon, id_spec(folder, batch=10, epochs=2))
    assert batches == with_one_worker[0]
    key = ("epoch", "batch", "row", "sample_id")
    assert sorted(tuple(f[k] for k in (*key, "substitute")) for f in report["failures"]) == \
        sorted(tuple(f[k] for k in (*key, "substitute")) for f in with_one_worker[1]["failures"])


def test_a_substitute_is_whole_and_never_one_that_the_batch_has_already(with_one_worker):
    batches, _ = with_one_worker
    assert len(batches) == 2 * COUNT // 10
    for ids in batches:
        assert len(set(ids)) == len(ids) == 10
        assert not set(ids) & set(BAD)


def test_LDR_02_every_sample_that_is_whole_is_still_delivered_and_each_failure_counted(with_one_worker):
    batches, report = with_one_worker
    for epoch in range(2):
        ids = {i for taken in batches[epoch * 12:epoch * 12 + 12] for i in taken}
        assert ids == set(range(COUNT)) - set(BAD)
        account = report["epochs"][epoch]
        assert (account["failed"], account["missing"], account["repeated"]) == (len(BAD), 0, 0)


def test_more_failures_than_the_budget_stop_the_stream_and_the_message_says_so(daemons, daemon, folder):
    job = id_spec(folder, batch=10, shuffle=False, errors={"policy": "refill", "max_failures": 5})
    status, result, err = daemons.try_run(job, daemon)
    assert status == 1
    assert result["accounted"] is False and not result["ended"]
    assert "errors.max_failures is 5" in err and err.count("\n") == 1
    assert result["samples"] == 30  # batch 3 brings the sixth failure

    with Client(daemon.socket) as client:
        stream = client.open(job)
        with pytest.raises(Error) as stopped:
            list(stream.batches())
        assert stopped.value.code == "SL_E_TOO_MANY_FAILURES"
        stream.close()


def test_a_rate_above_max_rate_stops_the_stream_once_enough_were_asked_for(daemons, daemon, folder):
    errors = {"policy": "refill", "max_failures": 1000, "max_rate": 0.05}
    job = id_spec(folder, batch=10, epochs=20, errors=errors)
    status, result, err = daemons.try_run(job, daemon)
    assert status == 1 and "errors.max_rate" in err
    assert 990 <= result["samples"] < 1100
    job["errors"]["max_rate"] = 0.2
    assert daemons.try_run(job, daemon)[0] == 0


def test_a_set_that_is_damaged_from_end_to_end_ends_in_placeholders_and_not_in_a_hang(daemon, open_folder):
    for path in test_card.id_pictures(open_folder, 12):
        test_card.empty(path)
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(open_folder, batch=4))
        valid = [flag for batch in stream.batches() for flag in batch.valid()]
        stream.close()
    assert valid == [0] * 12
