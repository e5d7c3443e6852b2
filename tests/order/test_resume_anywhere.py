"""200 positions, drawn at random, each opened by a new client, in daemons that are killed and started again
with other workers, on another number of ranks: what comes is the uninterrupted run, id by id (promise 8)."""

import hashlib
import json
import random

import pytest

from support.capi import END, OK, Client
from support.daemon import Daemons
from support.specs import id_spec

COUNT, GLOBAL_BATCH, EPOCHS = 500, 24, 4
BATCHES = -(-COUNT // GLOBAL_BATCH)  # an epoch; the last has 20, which 1, 2 and 4 ranks share evenly
POINTS, DAEMONS = 200, 5


@pytest.fixture(scope="module")
def job(id_set):
    return id_spec(id_set(COUNT), batch=GLOBAL_BATCH, last="keep", seed=77, epochs=EPOCHS)


def take(client, job, state, most):
    """([(epoch, batch, ids)], state after the last)."""
    stream = client.open(job, state=state)
    taken = []
    while len(taken) < most:
        status, batch = stream.next()
        if status == END:
            break
        if status == OK:
            taken.append((*batch.place()[:2], batch.ids()))
            batch.release()
    state = stream.state()
    stream.close()
    return taken, state


@pytest.fixture(scope="module")
def whole(job):
    """The run that is never interrupted: [(epoch, batch, ids)] and a state."""
    with Daemons() as daemons, Client(daemons.start(workers=1).socket) as client:
        batches, _ = take(client, job, None, BATCHES * EPOCHS)
        stream = client.open(job)
        state = stream.state()
        stream.close()
    assert len(batches) == BATCHES * EPOCHS
    return batches, json.loads(state)


def on_ranks(client, job, state, world, most):
    """The global batches that `world` ranks take together, and the state they share afterwards."""
    shards = []
    for rank in range(world):
        shard = job | {"batch": job["batch"] | {"size": GLOBAL_BATCH // world},
                       "shard": {"rank": rank, "world_size": world}}
        shards.append(take(client, shard, state, most))
    assert len({state for _, state in shards}) == 1
    together = [(*parts[0][:2], [i for part in parts for i in part[2]])
                for parts in zip(*(taken for taken, _ in shards), strict=True)]
    return together, shards[0][1]


def digest(batches):
    return hashlib.sha256(json.dumps(batches).encode()).hexdigest()


def test_resuming_at_200_random_points_gives_the_rest_of_the_uninterrupted_run(daemons, job, whole):
    batches, template = whole
    draw = random.Random(2026)
    points = [draw.randrange(len(batches)) for _ in range(POINTS - 2)] + [0, len(batches) - 1]
    draw.shuffle(points)
    epochs_compared, daemon = 0, None
    for number, point in enumerate(points):
        if number % (POINTS // DAEMONS) == 0:
            if daemon is not None:
                daemon.kill()
            daemon = daemons.start(workers=1 + number // (POINTS // DAEMONS) % 3,
                                   env={"SPEEDYLOADER_TEST_DELAY_US": draw.choice([0, 300])})
        epoch, index = divmod(point, BATCHES)
        state = json.dumps(template | {"epoch": epoch, "batch": index})
        to_the_end = number % 8 == 0
        most = BATCHES - index if to_the_end else draw.randint(1, 2)
        with Client(daemon.socket) as client:  # a new one each time
            got, after = on_ranks(client, job, state, draw.choice([1, 2, 4]), most)
        expected = batches[point:point + most]
        assert got == expected, (point, most)
        next_epoch, next_index = divmod(point + len(expected), BATCHES)
        assert json.loads(after) == template | {"epoch": next_epoch, "batch": next_index}
        if to_the_end:
            first = epoch * BATCHES
            assert digest(batches[first:point] + got) == digest(batches[first:first + BATCHES])
            epochs_compared += 1
    assert epochs_compared == POINTS // 8
