"""A lease ends with the last view of its batch: of any framework, in any order, on any thread."""

import gc
import itertools
import queue
import random
import threading

import pytest
from holding import FRAMEWORK_HOLDERS, HOLDERS, PLAIN_HOLDERS, WAIT_S, hold, open_ids, ring_mappings, shows
from support.daemon import wait_for

WITHOUT_FRAMEWORKS = pytest.param(tuple(PLAIN_HOLDERS), id="without frameworks", marks=pytest.mark.sanitized)
EVERYTHING = pytest.param(tuple(HOLDERS), id="everything")


@pytest.fixture
def loader(shared_daemon, id_set):
    with open_ids(id_set(40), shared_daemon.socket) as made:
        yield made


def endless(loader):
    """Batches of one epoch after the other."""
    return itertools.chain.from_iterable(itertools.repeat(loader))


def ids(batch):
    return memoryview(batch["sample_id"]).tolist()


def let_go_in_order(loader, batches, kinds, order):
    batch = next(batches)
    assert not batch.copied
    expected = ids(batch)
    held = hold(kinds, batch)
    del batch
    for kind in order:
        assert loader.stats()["held"] == 1, f"before {kind} went, of {order}"
        assert shows(kind, held[kind], expected)
        del held[kind]
    assert loader.stats()["held"] == 0, order


@pytest.mark.sanitized
def test_the_lease_ends_with_the_last_view_in_all_120_orders(loader):
    batches = endless(loader)
    kinds = ("batch", "tensor", "memoryview", "numpy slice", "capsule")
    for order in itertools.permutations(kinds):
        let_go_in_order(loader, batches, kinds, order)


def test_the_lease_ends_with_the_last_array_of_any_framework_in_all_120_orders(loader):
    batches = endless(loader)
    assert len(FRAMEWORK_HOLDERS) == 5
    for order in itertools.permutations(FRAMEWORK_HOLDERS):
        let_go_in_order(loader, batches, FRAMEWORK_HOLDERS, order)


def test_the_lease_ends_with_the_last_of_twelve_holders_in_100_random_orders(loader):
    batches = endless(loader)
    draw = random.Random(4)
    for _ in range(100):
        let_go_in_order(loader, batches, HOLDERS, draw.sample(sorted(HOLDERS), len(HOLDERS)))


def test_a_view_of_a_view_holds_the_lease_when_all_between_are_gone(loader):
    batch = next(iter(loader))
    expected = ids(batch)[1:]
    view = memoryview(batch.torch("image").permute(0, 3, 1, 2).numpy()[1:].transpose(0, 2, 3, 1))
    del batch
    gc.collect()
    assert loader.stats()["held"] == 1
    assert shows("memoryview", view, expected)
    del view
    assert loader.stats()["held"] == 0


# ---- threads ----


def end_together(barrier, box):
    barrier.wait(WAIT_S)
    box.clear()


def end_with_the_thread(barrier, local, box):
    """The view dies with the thread's own variables."""
    local.view = box.pop()
    barrier.wait(WAIT_S)


@pytest.mark.parametrize("end", ["in a thread", "with its thread"])
@pytest.mark.parametrize("kinds", [WITHOUT_FRAMEWORKS, EVERYTHING])
def test_holders_may_end_on_threads_of_their_own_at_the_same_time(loader, kinds, end):
    batches = endless(loader)
    for _ in range(25):
        batch = next(batches)
        assert not batch.copied
        boxes = [[held] for held in hold(kinds, batch).values()]
        del batch
        barrier = threading.Barrier(len(boxes) + 1)
        local = threading.local()
        threads = [threading.Thread(target=end_together, args=(barrier, box)) if end == "in a thread" else
                   threading.Thread(target=end_with_the_thread, args=(barrier, local, box)) for box in boxes]
        for thread in threads:
            thread.start()
        assert loader.stats()["held"] == 1
        barrier.wait(WAIT_S)
        for thread in threads:
            thread.join(WAIT_S)
        wait_for(lambda: loader.stats()["held"] == 0)


@pytest.mark.parametrize("kinds", [WITHOUT_FRAMEWORKS, EVERYTHING])
def test_threads_that_consume_a_queue_of_views_end_every_lease(loader, kinds):
    views, seen, wrong = queue.Queue(2), [], []

    def consume():
        while (item := views.get(timeout=WAIT_S)) is not None:
            kind, held, expected = item
            (seen if shows(kind, held, expected) else wrong).append((kind, expected))
            del item, held

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for kind, batch in zip(list(kinds) * 40, endless(loader)):
        views.put((kind, hold([kind], batch)[kind], ids(batch)), timeout=WAIT_S)
        del batch
    for _ in threads:
        views.put(None, timeout=WAIT_S)
    for thread in threads:
        thread.join(WAIT_S)
    assert (wrong, len(seen)) == ([], 40 * len(kinds))
    wait_for(lambda: loader.stats()["held"] == 0)


# ---- the loader ends first ----


def close(loader, daemon):
    loader.close()


def leave(loader, daemon):
    with loader:
        pass


def reset(loader, daemon):
    loader.reset(3)


def kill_the_daemon(loader, daemon):
    daemon.kill()


def let_go(loader, daemon):
    """The caller's was the last reference."""


@pytest.fixture
def no_collector():
    """What ends here has to end with its last reference, and not whenever the collector comes by."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("end", [close, leave, reset, kill_the_daemon, let_go], ids=lambda end: end.__name__)
@pytest.mark.parametrize("kinds", [WITHOUT_FRAMEWORKS, EVERYTHING])
def test_views_outlive_their_loader_and_end_on_another_thread(daemons, no_collector, id_set, kinds, end):
    mapped = ring_mappings()
    daemon = daemons.start()
    loader = open_ids(id_set(40), daemon.socket)
    batches = iter(loader)
    batch = next(batches)
    expected = ids(batch)
    held = hold(kinds, batch)
    del batch, batches
    assert ring_mappings() == mapped + 1
    end(loader, daemon)
    del loader
    if daemon.is_alive():
        wait_for(lambda: not daemon.status()["streams"], what="the stream of a loader that is gone")
        with open_ids(id_set(40), daemon.socket) as other:  # whatever may be used again, is
            assert sum(1 for _ in other) == 20
    assert ring_mappings() == mapped + 1, "the views' ring, and no other"
    for kind, view in held.items():
        assert shows(kind, view, expected)
    del view
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join(WAIT_S)
    assert ring_mappings() == mapped
