"""A position of a data set that has changed since is refused, unless the one who opens it allows that."""

import json

import pytest

import test_card
from support.capi import ALLOW_CHANGE, Client, Error
from support.specs import id_spec


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as made:
        yield made


@pytest.fixture
def changed(client, tmp_path):
    """(spec, state at batch 7 of 40 samples); one of them has gone since."""
    paths = test_card.id_pictures(tmp_path / "set", 40)
    job = id_spec(tmp_path / "set", batch=4, seed=5, epochs=2)
    stream = client.open(job)
    for _ in range(7):
        stream.next()[1].release()
    state = stream.state()
    stream.close()
    paths[11].unlink()
    return job, state


def content(stream):
    return [(batch.place(), batch.ids(), batch.raw("image")[2]) for batch in stream.batches()]


def refusal(client, job, state, flags):
    with pytest.raises(Error) as refused:
        client.open(job, state=state, flags=flags)
    assert refused.value.code == "SL_E_SPEC"
    return refused.value.message


def test_a_changed_data_set_is_refused_with_what_differs(client, changed):
    message = refusal(client, *changed, flags=0)
    assert message.startswith("the state is of another dataset: dataset is ")
    assert "samples is 40 in the state and 39 here" in message


def test_allowed_it_goes_on_at_the_same_batch_of_the_data_set_as_it_is_now(client, changed):
    job, state = changed
    stream = client.open(job)
    now = content(stream)
    stream.close()
    stream = client.open(job, state=state, flags=ALLOW_CHANGE)
    assert (stream.first_epoch, stream.first_batch) == (0, 7)
    mine = stream.state()
    assert content(stream) == now[7:]
    first, second = stream.report()["epochs"]
    stream.close()
    assert (first["resumed_at"], first["planned"], first["delivered"]) == (7, 39 - 28, 39 - 28)
    assert (second["resumed_at"], second["planned"], second["delivered"]) == (0, 39, 39)
    assert first["missing"] == first["repeated"] == second["missing"] == second["repeated"] == 0
    client.open(job, state=mine).close()  # a state of the set as it is now: needs no permission


def test_nothing_but_the_data_set_may_have_changed_and_the_batch_must_exist(client, changed):
    job, state = changed
    reseeded = job | {"order": job["order"] | {"seed": 6}}
    assert "seed is 5 in the state and 6 here" in refusal(client, reseeded, state, ALLOW_CHANGE)
    gone = json.dumps(json.loads(state) | {"batch": 10})
    assert "state.batch is 10, allowed: less than the batches of an epoch, 10" in \
        refusal(client, job, gone, ALLOW_CHANGE)


def test_a_subset_of_a_data_set_is_another_data_set_and_may_be_allowed_too(client, changed):
    job, state = changed
    part = job | {"dataset": job["dataset"] | {"subset": {"ids": list(range(38))}}}
    assert "the state is of another dataset" in refusal(client, part, state, 0)
    client.open(part, state=state, flags=ALLOW_CHANGE).close()


def test_a_flag_that_nobody_knows_is_refused(client, changed):
    with pytest.raises(Error, match="flags is 6 .known: SL_OPEN_ALLOW_CHANGE"):
        client.open(changed[0], flags=6)
