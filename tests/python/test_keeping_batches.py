"""Nothing changes under a batch that is kept, however many there are; the loader goes on with copies."""

import contextlib
import gc
import os
import random
import re
import time

import pytest
import speedyloader as sl
from holding import FRAMEWORK_HOLDERS, HOLDERS, PLAIN_HOLDERS, open_ids, planned_ids, shows

SLOTS = 4
BATCHES = 50 * SLOTS
KINDS = [*(pytest.param(kind, marks=pytest.mark.sanitized) for kind in PLAIN_HOLDERS), *FRAMEWORK_HOLDERS]


@pytest.fixture(scope="module")
def folder(id_set):
    return id_set(2 * BATCHES)


@pytest.fixture(scope="module")
def planned(folder, shared_daemon):
    """The ids of each batch of the first epoch, from copies that were let go of at once."""
    return planned_ids(folder, shared_daemon.socket, copy=True)


@pytest.fixture
def loader(shared_daemon, folder):
    with open_ids(folder, shared_daemon.socket, slots=SLOTS) as made:
        assert made.info["slots"] == SLOTS
        yield made


@pytest.fixture
def strict_loader(shared_daemon, folder):
    with open_ids(folder, shared_daemon.socket, slots=SLOTS, ring_full="error") as made:
        yield made


def ids(batch):
    return memoryview(batch["sample_id"]).tolist()


# ---- ring_full="copy" ----


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_of_50_rings_can_be_kept_and_nothing_changes_under_it(loader, planned, kind):
    make, _ = HOLDERS[kind]
    kept, copied = [], []
    for batch in loader:
        kept.append(make(batch))
        copied.append(batch.copied)
        del batch
    assert len(kept) == len(planned) == BATCHES
    assert copied == [False] * (SLOTS - 1) + [True] * (BATCHES - SLOTS + 1)
    stats = loader.stats()
    assert (stats["held"], stats["copied"]) == (SLOTS - 1, BATCHES - SLOTS + 1)
    changed = [index for index, held in enumerate(kept) if not shows(kind, held, planned[index])]
    assert changed == []
    kept.clear()
    assert loader.stats()["held"] == 0
    assert not any(batch.copied for batch in loader), "what was let go of can be used again"
    assert loader.stats()["copied"] == BATCHES - SLOTS + 1


def test_every_kind_of_view_of_one_epoch_can_be_kept_together(loader, planned):
    kept = [(kind, [HOLDERS[kind][0](batch)]) for kind, batch in zip(list(HOLDERS) * BATCHES, loader)]
    assert len(kept) == BATCHES
    order = random.Random(9).sample(range(BATCHES), BATCHES)
    for done, index in enumerate(order):
        kind, box = kept[index]
        assert shows(kind, box.pop(), planned[index]), f"{kind} of batch {index}, after {done} others went"
    assert loader.stats()["held"] == 0


@pytest.mark.sanitized
def test_a_batch_is_a_copy_only_while_one_slot_is_left(loader, planned):
    """Kept and let go of at random: `held` is what is kept of the ring, and `copied` follows from it."""
    draw = random.Random(1)
    kept, copies = [], 0
    for batch in loader:  # and not enumerate(loader), which keeps the one before
        ring = sum(1 for other, _ in kept if not other.copied)
        assert batch.copied == (ring == SLOTS - 1)
        assert loader.stats()["held"] == ring + (not batch.copied)
        copies += batch.copied
        kept.append((batch, planned[batch.index]))
        del batch
        while kept and draw.random() < 0.5:
            other, expected = kept.pop(draw.randrange(len(kept)))
            assert shows("batch", other, expected)
            del other
    assert 0 < copies < BATCHES - SLOTS
    assert loader.stats()["copied"] == copies


@pytest.mark.sanitized
def test_two_loaders_keep_their_epochs_apart(shared_daemon, folder, planned):
    with (open_ids(folder, shared_daemon.socket) as one,
          open_ids(folder, shared_daemon.socket, seed=1) as two):
        others = planned_ids(folder, shared_daemon.socket, seed=1)
        kept = list(zip(one, two))
        assert others != planned and len(kept) == BATCHES
        for (first, second), first_ids, second_ids in zip(kept, planned, others):
            assert shows("batch", first, first_ids) and shows("batch", second, second_ids)
        assert one.stats()["held"] == two.stats()["held"] == SLOTS - 1


# ---- ring_full="error" ----


@pytest.mark.sanitized
def test_RingExhausted_names_what_is_held_and_nothing_is_lost(strict_loader, planned):
    batches = iter(strict_loader)
    begun = time.monotonic()
    kept = [next(batches)]
    time.sleep(0.2)  # an age to be seen
    kept += [next(batches) for _ in range(SLOTS - 1)]
    with pytest.raises(sl.RingExhausted) as caught:
        next(batches)
    age = time.monotonic() - begun
    assert "all 4 slots of the ring are held by this process" in str(caught.value)
    assert caught.value.code == "SL_E_BUDGET" and isinstance(caught.value, (sl.Error, RuntimeError))
    named = re.findall(r"batch (\d+) of epoch (\d+) \((\d+\.\d) s\)", str(caught.value))
    assert [(int(index), int(epoch)) for index, epoch, _ in named] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    ages = [float(seconds) for _, _, seconds in named]
    assert ages == sorted(ages, reverse=True)
    assert 0.2 <= ages[0] <= age + 0.05
    assert strict_loader.stats()["held"] == SLOTS and not any(batch.copied for batch in kept)
    for index, batch in enumerate(kept):
        assert shows("batch", batch, planned[index])

    del kept[1], batch
    fifth = next(batches)
    assert (fifth.index, ids(fifth), fifth.copied) == (SLOTS, planned[SLOTS], False)
    with pytest.raises(sl.RingExhausted, match=r"batch 0 of .*batch 2 of .*batch 3 of .*batch 4 of"):
        next(batches)
    kept.clear()
    del fifth
    assert [ids(batch) for batch in batches] == planned[SLOTS + 1:]
    assert strict_loader.stats()["copied"] == 0


@pytest.mark.sanitized
def test_RingExhausted_at_every_batch_still_gives_each_once_over_two_epochs(strict_loader, planned):
    kept, given, errors = [], [], 0
    for epoch in range(2):
        batches = iter(strict_loader)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                break
            except sl.RingExhausted as error:
                oldest = kept[0]
                assert f"by this process: batch {oldest.index} of epoch {oldest.epoch} (" in str(error)
                errors += 1
                del kept[0], oldest
                continue
            given.append((batch.epoch, batch.index, ids(batch)))
            kept.append(batch)
            del batch
    places = [(epoch, index) for epoch in range(2) for index in range(BATCHES)]
    assert [place[:2] for place in given] == places
    assert [row for _, _, row in given[:BATCHES]] == planned
    assert sorted(sum((row for _, _, row in given[BATCHES:]), [])) == list(range(2 * BATCHES))
    assert 2 * BATCHES - SLOTS <= errors <= 2 * BATCHES


@pytest.mark.sanitized
def test_RingExhausted_names_eight_of_many(shared_daemon, folder):
    with open_ids(folder, shared_daemon.socket, slots=11, ring_full="error") as loader:
        batches = iter(loader)
        kept = [next(batches) for _ in range(11)]
        with pytest.raises(sl.RingExhausted, match="all 11 slots of the ring") as caught:
            next(batches)
        assert re.search(r"batch 7 of epoch 0 \(\d+\.\d s\), \.\.\.;", str(caught.value))
        assert str(caught.value).count("of epoch 0") == 8
        assert len(kept) == 11


# ---- descriptors ----


def descriptors():
    """{number: what it leads to} of this process, without the one that looks."""
    with os.scandir("/proc/self/fd") as entries:
        numbers = [entry.name for entry in entries]
    links = {}
    for number in numbers:
        with contextlib.suppress(FileNotFoundError):
            links[number] = os.readlink(f"/proc/self/fd/{number}")
    return links


@pytest.mark.sanitized
@pytest.mark.parametrize("keep", [False, True], ids=["passed through", "held"])
def test_LDR_11_descriptors_are_constant_over_10000_batches(shared_daemon, folder, keep):
    gc.collect()  # what tests before have left, such as exceptions with their frames
    before = descriptors()
    kept = []
    with open_ids(folder, shared_daemon.socket, batch_size=1, slots=64) as loader:
        opened = descriptors()
        assert len(opened) <= len(before) + 8
        for _ in range(10_000 // len(loader)):
            for batch in loader:
                if keep:
                    kept.append(batch)
                if batch.step % 100 == 0:
                    assert descriptors() == opened
        assert batch.step + 1 == 10_000
        if keep:
            assert loader.stats()["held"] == 63
            assert all(shows("batch", each, ids(each)) for each in kept)
    del kept, batch
    assert descriptors() == before
