"""Positions of `sl.Loader`: saved, gone to, refused, and kept when the daemon has gone."""

import itertools
import json

import pytest
import speedyloader as sl
from loaders import COUNT, TINY, WAIT_S, content, ids


def places(batches):
    return [(epoch, index) for epoch, index, *_ in batches]


@pytest.mark.parametrize("taken", [0, 1, 3, 5])
def test_a_saved_position_resumes_in_mid_epoch_with_the_same_batches(make, taken):
    whole = make(seed=3, epochs=2)
    expected = content(whole) + content(whole)
    loader = make(seed=3, epochs=2)
    begun = content(itertools.islice(loader, taken))
    state = loader.state_dict()
    text = json.dumps(state)
    assert len(text.encode()) <= 300
    assert all(type(value) in (int, str, bool) for value in state.values())
    resumed = make(seed=3, epochs=2)
    resumed.load_state_dict(json.loads(text))
    assert resumed.state_dict() == state
    rest = content(resumed)
    if taken < 5:
        rest += content(resumed)
    assert begun + rest == expected


def test_a_position_is_what_was_given_and_not_what_was_prefetched(make):
    loader = make()
    positions = []
    for batch in loader:
        positions.append((loader.state_dict()["epoch"], loader.state_dict()["batch"]))
    assert positions == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]


def test_a_loader_goes_back_and_forth_between_positions(make):
    loader = make(last="keep", batch_size=16)
    states, batches = [], []
    for batch in itertools.chain(loader, loader):
        batches.append(content([batch])[0])
        states.append(loader.state_dict())
    for number in (4, 0, 2, 1):
        loader.load_state_dict(states[number])
        assert content([next(iter(loader))]) == [batches[number + 1]]


@pytest.mark.parametrize("change, named", [
    ({"seed": 4}, "seed"), ({"shuffle": False}, "shuffle"), ({"last": "pad"}, "last"),
    ({"batch_size": 4}, "global_batch")], ids=["seed", "shuffle", "last", "batch_size"])
def test_a_position_of_another_spec_is_refused_with_what_differs(make, change, named):
    state = make(seed=3).state_dict()
    with pytest.raises(sl.SpecError, match=named):
        make(**{"seed": 3} | change).load_state_dict(state)


def test_a_position_of_another_data_set_and_a_dict_that_is_none_are_refused(make, id_set):
    with pytest.raises(sl.SpecError, match="dataset|samples"):
        make().load_state_dict(make(id_set(12)).state_dict())
    with pytest.raises(sl.SpecError, match="speedyloader_state"):
        make().load_state_dict({"epoch": 1})


def test_two_ranks_go_on_where_one_was(make):
    alone = make(seed=5)
    content(itertools.islice(alone, 2))
    state = alone.state_dict()
    alone.load_state_dict(state)
    rest = [sorted(members) for _, _, members, _ in content(alone)]
    ranks = [make(seed=5, batch_size=4, rank=rank, world_size=2) for rank in range(2)]
    parts = []
    for rank in ranks:
        rank.load_state_dict(state)
        parts.append([members for _, _, members, _ in content(rank)])
    assert [sorted(a + b) for a, b in zip(*parts, strict=True)] == rest and len(rest) == 3


def test_amid_an_epoch_of_order_ready_there_is_no_position(make):
    loader = make(order="ready", epochs=2)
    first = loader.state_dict()
    batches = iter(loader)
    next(batches)
    with pytest.raises(sl.UnsupportedError, match="between epochs"):
        loader.state_dict()
    assert sum(1 for _ in batches) == 4
    assert loader.state_dict() == first | {"epoch": 1}
    loader.load_state_dict(loader.state_dict())
    assert sorted(i for batch in loader for i in ids(batch)) == list(range(COUNT))


def test_reset_goes_to_the_first_batch_of_an_epoch(make):
    loader = make(epochs=4)
    epochs = [content(loader) for _ in range(3)]
    loader.reset(1)
    assert content(loader) == epochs[1]
    next(iter(loader))
    loader.reset()
    assert loader.state_dict()["batch"] == 0
    assert content(loader) == epochs[0]
    with pytest.raises(sl.SpecError, match="epoch"):
        loader.reset(5)


def test_a_position_that_is_refused_leaves_the_loader_where_it_was(make):
    loader = make(epochs=3)
    taken = content(itertools.islice(loader, 2))
    state = loader.state_dict()
    for wrong in (lambda: loader.load_state_dict(state | {"seed": 99}), lambda: loader.reset(7),
                  lambda: loader.load_state_dict({})):
        with pytest.raises(sl.SpecError):
            wrong()
        assert loader.state_dict() == state
    assert places(taken + content(loader)) == [(0, index) for index in range(5)]


def test_a_position_can_be_tried_again_until_a_daemon_is_back(daemons, folder):
    daemon = daemons.start(workers=1)
    loader = sl.Loader(folder, TINY, batch_size=8, timeout=WAIT_S, socket=daemon.socket)
    taken = content(itertools.islice(loader, 2))
    state = loader.state_dict()
    daemon.stop()
    for _ in range(2):
        with pytest.raises(sl.NoDaemonError):
            loader.load_state_dict(state)
    daemon.start()
    loader.load_state_dict(state)
    assert places(taken + content(loader)) == [(0, index) for index in range(5)]
    loader.close()


@pytest.mark.parametrize("order", ["strict", "ready"])
def test_after_a_position_that_failed_for_want_of_a_daemon_the_loader_is_where_it_was(daemons, folder, order):
    daemon = daemons.start(workers=1)
    loader = sl.Loader(folder, TINY, batch_size=8, order=order, timeout=WAIT_S, socket=daemon.socket)
    start = loader.state_dict()
    batches = iter(loader)
    taken = content(itertools.islice(batches, 2))
    state = loader.state_dict() if order == "strict" else start
    daemon.stop()
    for go in (lambda: loader.load_state_dict(start), loader.reset):
        with pytest.raises(sl.NoDaemonError):
            go()
        assert loader.state_dict() == state
    with pytest.raises(sl.Error, match="this iteration is over"):
        next(batches)
    for call in (loader.stats, loader.report, lambda: loader.classes, lambda: iter(loader)):
        with pytest.raises(sl.NoDaemonError):
            call()
    daemon.start()
    rest = content(loader)
    assert places(rest) == [(0, index) for index in range(state["batch"], 5)]
    if order == "strict":
        assert sorted(i for _, _, members, _ in taken + rest for i in members) == list(range(COUNT))
    assert loader.state_dict() == start | {"epoch": 1}
    loader.close()


def test_a_loader_without_a_stream_can_be_closed_and_has_no_position_then(daemons, folder):
    daemon = daemons.start(workers=1)
    loader = sl.Loader(folder, TINY, batch_size=8, socket=daemon.socket)
    daemon.stop()
    with pytest.raises(sl.NoDaemonError):
        loader.reset()
    loader.close()
    for call in (loader.state_dict, loader.reset, loader.stats, lambda: next(iter(loader))):
        with pytest.raises(sl.ClosedError):
            call()
