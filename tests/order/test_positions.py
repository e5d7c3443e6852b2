"""A saved position begins a stream exactly there (promise 8): ids and bytes are those of the run that was not
interrupted, whatever has changed of workers, ranks, slots or daemons meanwhile."""

import json
import pathlib
import random
import shutil
import socket
import struct

import pytest

from support.capi import END, END_OF_EPOCH, OK, TIMEOUT, Client, Error
from support.daemon import Daemons
from support.specs import id_spec, spec

EPOCHS = 3
GLOBAL_BATCH = 16
FROZEN = pathlib.Path(__file__).with_name("states_0.1.json")


def rank_of(job, rank, world):
    """The same global batches, divided over ranks."""
    size = job["batch"]["size"] // world
    return job | {"batch": job["batch"] | {"size": size}, "shard": {"rank": rank, "world_size": world}}


def content(batch):
    """What must be the same: where it is, who is in it, and the bytes of every tensor."""
    return batch.place(), batch.ids(), [batch.raw(name)[2] for name in ("image", "label", "valid")]


def run(client, job, state=None, slots=0, most=None):
    """([content of each batch], [state before the first, after the first, ...], report)."""
    stream = client.open(job, slots=slots, state=state)
    batches, states = [], [stream.state()]
    while most is None or len(batches) < most:
        status, batch = stream.next()
        assert status != TIMEOUT
        if status == END:
            break
        if status == END_OF_EPOCH:
            assert stream.state() == states[-1]  # the border was the position already
            continue
        assert stream.state() != states[-1]
        batches.append(content(batch))
        states.append(stream.state())
        batch.release()
    report = stream.report()
    stream.close()
    return batches, states, report


def joined(ranks):
    """The global batches of several ranks' runs: [(ids, image bytes)]."""
    assert len({len(batches) for batches in ranks}) == 1
    return [([i for part in parts for i in part[1]], b"".join(part[2][0] for part in parts))
            for parts in zip(*ranks)]


def position(state):
    document = json.loads(state)
    return document["epoch"], document["batch"]


def at(state, epoch, batch):
    return json.dumps(json.loads(state) | {"epoch": epoch, "batch": batch}, separators=(",", ":"))


@pytest.fixture(scope="module")
def job(photos):
    """200 photographs: 13 batches an epoch, the last of 8."""
    return spec(photos, size=(24, 24), batch=GLOBAL_BATCH, last="keep", seed=41, epochs=EPOCHS)


@pytest.fixture(scope="module")
def whole(job):
    """The run that is never interrupted: its batches and the states between them."""
    with Daemons() as daemons, Client(daemons.start(workers=1).socket) as client:
        batches, states, _ = run(client, job)
    assert len(batches) == 13 * EPOCHS
    assert [place for place, _, _ in batches] == [(i // 13, i % 13, i) for i in range(len(batches))]
    return batches, states


def assert_resumed_report_adds_up(report, first_epoch, first_batch, samples=200):
    for entry in report["epochs"]:
        left = samples
        if entry["epoch"] == first_epoch:
            left -= first_batch * GLOBAL_BATCH
        assert entry["resumed_at"] == (first_batch if entry["epoch"] == first_epoch else 0)
        assert entry["complete"] is True
        assert entry["planned"] == entry["delivered"] == left
        assert entry["missing"] == entry["repeated"] == entry["failed"] == 0
    assert [entry["epoch"] for entry in report["epochs"]] == list(range(first_epoch, EPOCHS))


def test_a_state_is_a_few_readable_bytes_and_moves_by_one_batch(whole):
    _, states = whole
    assert [position(state) for state in states] == [(i // 13, i % 13) for i in range(13 * EPOCHS + 1)]
    first = json.loads(states[0])
    assert list(first) == ["speedyloader_state", "dataset", "samples", "seed", "shuffle", "order",
                           "global_batch", "last", "epoch", "batch"]
    assert first | {"dataset": ""} == {
        "speedyloader_state": 1, "dataset": "", "samples": 200, "seed": 41, "shuffle": True, "order": 1,
        "global_batch": GLOBAL_BATCH, "last": "keep", "epoch": 0, "batch": 0}
    assert all(len(state) < 200 for state in states)


@pytest.mark.parametrize("workers", [1, 4])
def test_resuming_at_any_point_in_another_daemon_gives_the_rest_of_the_run(daemons, job, whole, workers):
    batches, states = whole
    draw = random.Random(workers)
    points = draw.sample(range(len(batches)), 18) + [0, 13]  # and the borders
    for count, point in enumerate(points):
        if count % 5 == 0:
            daemon = daemons.start(workers=workers, env={"SPEEDYLOADER_TEST_DELAY_US": 500})
        with Client(daemon.socket) as client:
            most = draw.choice([None, 1, 5, 14])
            got, got_states, report = run(client, job, states[point], draw.choice([1, 2, 0]), most)
        end = len(batches) if most is None else min(point + most, len(batches))
        assert got == batches[point:end]
        assert got_states == states[point:end + 1]
        if most is None:
            assert_resumed_report_adds_up(report, *position(states[point]))


def test_a_run_interrupted_again_and_again_is_the_uninterrupted_run(daemons, job, whole):
    batches, states = whole
    draw = random.Random(3)
    got, state = [], ""
    while len(got) < len(batches):
        daemon = daemons.start(workers=draw.choice([1, 2, 3]))
        with Client(daemon.socket) as client:
            part, part_states, _ = run(client, job, state, most=draw.randint(2, 9))
        daemon.kill()
        got += part
        state = part_states[-1]
        assert state == states[len(got)]
    assert got == batches


def test_two_ranks_become_one_and_then_four_with_the_same_global_batches(client, photos):
    job = spec(photos, size=(24, 24), batch=GLOBAL_BATCH, last="drop", seed=5, epochs=2)
    expected = joined([run(client, job)[0]])
    assert len(expected) == 24
    got, state = [], None
    for world, most in ((2, 7), (1, 8), (4, None)):
        runs = [run(client, rank_of(job, rank, world), state, most=most) for rank in range(world)]
        got += joined([batches for batches, _, _ in runs])
        assert len({states[-1] for _, states, _ in runs}) == 1  # ranks share their position
        state = runs[0][1][-1]
    assert got == expected
    assert position(state) == (2, 0)


def test_a_state_loaded_is_saved_again_byte_for_byte(client, job, whole):
    for state in whole[1]:
        stream = client.open(job, slots=1, state=state)
        assert stream.state() == state
        assert (stream.first_epoch, stream.first_batch) == position(state)
        stream.close()


def test_a_state_may_be_set_with_blanks_and_in_another_order(client, job, whole):
    state = whole[1][20]
    turned = json.dumps(dict(reversed(json.loads(state).items())), indent=2)
    stream = client.open(job, state=turned)
    assert stream.state() == state
    stream.close()


def test_the_state_after_the_last_epoch_gives_the_end_at_once_and_more_epochs_go_on(client, job, whole):
    batches, states = whole
    assert position(states[-1]) == (EPOCHS, 0)
    stream = client.open(job, state=states[-1])
    assert stream.next() == (END, None)
    assert stream.next() == (END, None)
    assert stream.report()["epochs"] == []
    stream.close()
    stream = client.open(job | {"epochs": EPOCHS + 1}, state=states[-1])
    _, batch = stream.next()
    assert batch.place() == (EPOCHS, 0, len(batches))
    stream.close()


def test_what_lies_ahead_in_the_ring_is_not_in_the_state(client, job, whole):
    stream = client.open(job, slots=8, state=whole[1][3])
    held = []
    for _ in range(8):
        status, batch = stream.next()
        assert status == OK
        held.append(batch)
    assert stream.state() == whole[1][11]
    stream.close()


@pytest.fixture
def client(daemon):
    with Client(daemon.socket) as made:
        yield made


def refusal(client, job, state, code="SL_E_SPEC"):
    with pytest.raises(Error) as refused:
        client.open(job, state=state)
    assert refused.value.code == code
    return refused.value.message


def test_a_state_of_a_changed_data_set_is_refused_with_what_differs(client, few_photos, tmp_path):
    folder = tmp_path / "set"
    shutil.copytree(few_photos, folder)
    job = spec(folder, size=(24, 24), batch=4, epochs=2)
    _, states, _ = run(client, job, most=3)
    victim = sorted(folder.rglob("*.jpg"))[7]
    victim.rename(victim.with_name("zz.jpg"))
    renamed = refusal(client, job, states[-1])
    assert renamed.startswith("the state is of another dataset: dataset is ")
    assert json.loads(states[-1])["dataset"] in renamed and "samples" not in renamed
    victim.with_name("zz.jpg").unlink()
    fewer = refusal(client, job, states[-1])
    assert "samples is 40 in the state and 39 here" in fewer


def test_a_state_of_another_spec_is_refused_with_each_difference(client, job, whole):
    state = whole[1][5]
    assert "seed is 41 in the state and 42 here" in refusal(
        client, job | {"order": job["order"] | {"seed": 42}}, state)
    several = refusal(client, job | {"batch": {"size": 8, "last": "drop"},
                                     "order": {"shuffle": False, "seed": 41}}, state)
    assert several == ("the state is of another order: shuffle is true in the state and false here; "
                       "global_batch is 16 in the state and 8 here; last is keep in the state and drop here")


def test_a_state_beyond_the_epoch_or_the_epochs_is_refused_with_its_key(client, job, whole):
    state = whole[1][5]
    assert "state.batch is 13" in refusal(client, job, at(state, 1, 13))
    assert "state.epoch is 4" in refusal(client, job, at(state, EPOCHS + 1, 0))
    assert "state.batch is 1" in refusal(client, job, at(state, EPOCHS, 1))
    assert "state.colour is not a known key" in refusal(client, job, state[:-1] + ',"colour":1}')
    assert "state.speedyloader_state is 2" in refusal(client, job, state.replace("_state\":1", "_state\":2"))
    assert "not JSON" in refusal(client, job, state[:-1])


def test_resuming_far_into_a_huge_plan_costs_what_the_start_costs(client, id_set):
    """The walk begins there: nothing is done for the skipped batches, and steps keep their numbers."""
    job = id_spec(id_set(500), batch=1, epochs=2**48)
    epoch = 2**48 - 1
    start, states, _ = run(client, job, most=1)
    _, _, step = start[0][0]
    assert step == 0
    far, _, _ = run(client, job, at(states[0], epoch, 498), most=2)
    assert [place for place, _, _ in far] == [(epoch, batch, epoch * 500 + batch) for batch in (498, 499)]


def test_ready_batches_have_a_position_between_epochs_only(client, id_set):
    job = id_spec(id_set(40), batch=8, policy="ready", epochs=2)
    stream = client.open(job)
    first = stream.state()
    for count in range(1, 6):
        status, batch = stream.next()
        assert status == OK
        batch.release()
        if count < 5:
            with pytest.raises(Error) as refused:
                stream.state()
            assert refused.value.code == "SL_E_UNSUPPORTED"
            assert "only between epochs" in refused.value.message
    border = stream.state()
    assert position(border) == (1, 0)
    stream.close()
    assert "only begin at an epoch's start" in refusal(client, job, at(first, 0, 2), "SL_E_UNSUPPORTED")
    stream = client.open(job, state=border)
    ids = [i for batch in stream.batches() for i in batch.ids()]
    assert sorted(ids) == list(range(40))
    report = stream.report()
    assert [entry["epoch"] for entry in report["epochs"]] == [1]
    assert report["epochs"][0]["complete"] and report["epochs"][0]["resumed_at"] == 0
    stream.close()


def test_a_resumed_epoch_names_its_failures_and_still_adds_up(client, few_photos, tmp_path):
    folder = tmp_path / "set"
    shutil.copytree(few_photos, folder)
    job = spec(folder, size=(24, 24), batch=4, seed=2, errors={"max_failures": 100, "max_rate": 1.0})
    _, states, _ = run(client, job, most=4)
    plan = client.open(job)
    order = [i for batch in plan.batches() for i in batch.ids()]
    plan.close()
    files = sorted(folder.rglob("*.jpg"))
    for sample_id in (order[3], order[20], order[39]):  # one before the position, two after it
        files[sample_id].write_bytes(b"no picture")
    whole, _, _ = run(client, job)
    batches, _, report = run(client, job, states[-1])
    assert batches == whole[4:]  # substitutes included
    entry = report["epochs"][0]
    assert (entry["planned"], entry["delivered"], entry["failed"], entry["substituted"]) == (24, 22, 2, 2)
    assert entry["missing"] == entry["repeated"] == 0 and entry["resumed_at"] == 4 and entry["complete"]
    assert {order[20], order[39]} <= {failure["sample_id"] for failure in report["failures"]}


@pytest.mark.parametrize("spec_bytes, state_bytes", [(0, 1), (1, 0), (-1, 0), (7, -7), (10**6, -(10**6))])
def test_an_OPEN_whose_lengths_lie_opens_nothing(daemon, job, whole, spec_bytes, state_bytes):
    """Spoken as shm/messages.h says; each case adds its numbers to the true lengths, in 32 bits."""
    text, state = json.dumps(job).encode(), whole[1][5].encode()
    lengths = [(len(text) + spec_bytes) % 2**32, (len(state) + state_bytes) % 2**32]
    body = struct.pack("<IIII", 0, 0, *lengths) + text + state
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as raw:
        raw.settimeout(30)
        raw.connect(str(daemon.socket))
        for kind, message in ((1, struct.pack("<II64s", 1, 0, b"liar")), (4, body)):
            raw.sendall(struct.pack("<IHHII", 16 + len(message), 1, 1, kind, 9) + message)
            answer = raw.recv(65536)
    assert struct.unpack_from("<IHHII", answer)[3:] == (3, 9)  # ERROR
    assert struct.unpack_from("<i", answer, 16)[0] in (-4, -10)  # SL_E_PROTOCOL, SL_E_SPEC
    assert daemon.status()["streams"] == []


def test_the_states_of_this_release_still_open_where_they_did(client, id_set):
    for frozen in json.loads(FROZEN.read_text()):
        job = id_spec(id_set(frozen["count"]), **frozen["spec"])
        got, states, _ = run(client, job, frozen["state"], most=2)
        assert states[0] == frozen["state"]
        assert [ids for _, ids, _ in got] == frozen["next"]
