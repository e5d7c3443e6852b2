"""One slow sample, one heavy tail, one consumer that stops: nobody else waits for them (promise 3, LDR-06).

The slow sample is a read that does not return before the test says so (reader/fuse_folder.py), so what is ready
meanwhile can be counted instead of timed; those tests are skipped, with the reason, where FUSE is not to be had.
"""

import contextlib
import os
import shutil
import threading

import fuse_folder
import pytest
import test_card
from PIL import Image
from support.capi import END_OF_EPOCH, OK, TIMEOUT, Client
from support.daemon import wait_for
from support.specs import id_spec, spec

COUNT = 2000
SLOW = 1000
BATCH = 10
SLOTS = 4
PATIENCE = ("--read-timeout", "600s")


@pytest.fixture
def mount(id_set):
    """A view of 2,000 pictures in which one is not read before wake()."""
    pytest.importorskip("fusepy", reason="python3-fusepy is not installed")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    folder = id_set(COUNT)
    slow = sorted(path.name for path in folder.rglob("*.png"))[SLOW]
    with fuse_folder.Mount(folder) as mounted:
        if mounted.trouble is not None:
            pytest.skip(f"cannot mount: {mounted.trouble.strip()[-200:]}")
        mounted.rule(slow, on="read", sleep=True)
        yield mounted


def stream_status(client, of):
    return next(found for found in client.status()["streams"] if found["dataset"] == str(of))


def decoded(status):
    return sum(lane["samples"] for lane in status["lanes"].values())


def take(stream):
    """The ids of the next batch, of the next epoch if this one has ended."""
    status, batch = stream.next()
    if status == END_OF_EPOCH:
        status, batch = stream.next()
    assert status == OK
    ids = batch.ids()
    batch.release()
    return ids


def test_LDR_06_in_strict_order_the_only_stall_is_at_that_batch_and_the_full_depth_is_ready_behind_it(
        daemons, mount, id_set):
    daemon = daemons.start(*PATIENCE)
    other = id_set(300)
    with Client(daemon.socket) as client, Client(daemon.socket) as watch:
        stream = client.open(id_spec(mount.folder, batch=BATCH, shuffle=False), slots=SLOTS)
        before, held_up = divmod(slow_id(mount), BATCH)[0], slow_id(mount)
        for number in range(before):
            assert take(stream) == list(range(number * BATCH, (number + 1) * BATCH))
        depth = before * BATCH + SLOTS * BATCH
        wait_for(lambda: decoded(stream_status(watch, mount.folder)) >= depth - 1,
                 what="all batches of the ring but for one sample")
        assert stream.next(timeout_ms=0)[0] == TIMEOUT

        # A client of another data set sees none of it: it comes to its end meanwhile.
        assert sorted(daemons.run(id_spec(other, batch=BATCH), daemon)["ids"][0]) == list(range(300))

        # Nor does anything run beyond the memory of the stream: its ring and its sample slots.
        stalled = stream_status(watch, mount.folder)
        assert stalled["batches"] == before
        assert depth - 1 <= decoded(stalled) <= depth + 5 * max(BATCH, 32)

        mount.wake()
        rest = [take(stream) for _ in range(SLOTS)]
        assert held_up in rest[0]
        assert sum(rest, []) == list(range(before * BATCH, depth))
        assert [i for batch in stream.batches() for i in batch.ids()] == list(range(depth, COUNT))
        stream.close()


def slow_id(mount):
    """Sample ids follow the sorted paths, classes first."""
    names = sorted(path.relative_to(mount.folder) for path in mount.folder.rglob("*.png"))
    slow = sorted(path.name for path in names)[SLOW]
    return [path.name for path in names].index(slow)


def test_LDR_06_in_ready_order_every_batch_but_the_last_comes_while_one_sample_is_slow(daemons, mount):
    daemon = daemons.start(*PATIENCE)
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(mount.folder, batch=BATCH, policy="ready"), slots=SLOTS)
        came = [i for _ in range(COUNT // BATCH - 1) for i in take(stream)]
        assert slow_id(mount) not in came
        assert stream.next(timeout_ms=0)[0] == TIMEOUT
        mount.wake()
        last = take(stream)
        assert slow_id(mount) in last
        assert sorted(came + last) == list(range(COUNT))
        stream.close()


def test_LDR_06_in_ready_order_no_sample_drifts_into_the_next_epoch(daemons, mount):
    daemon = daemons.start(*PATIENCE)
    with Client(daemon.socket) as client, Client(daemon.socket) as watch:
        stream = client.open(id_spec(mount.folder, batch=BATCH, policy="ready", epochs=2), slots=SLOTS)
        came = [i for _ in range(COUNT // BATCH - 1) for i in take(stream)]
        # The next epoch is under way: its samples fill all the memory there is behind the last batch of this one.
        wait_for(lambda: decoded(stream_status(watch, mount.folder)) >= COUNT - 1 + (SLOTS - 1) * BATCH,
                 what="the next epoch's first batches")
        mount.wake()
        came += take(stream)
        assert sorted(came) == list(range(COUNT))
        second = [i for batch in stream.batches() for i in batch.ids()]
        assert sorted(second) == list(range(COUNT))
        stream.close()


class Greedy:
    """Takes every batch of an endless stream at once, in a thread, until it is left."""

    def __init__(self, daemon, job):
        self._client = Client(daemon.socket)
        self._stream = self._client.open({**job, "epochs": 10**6})
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._take)
        self.taken = 0

    def _take(self):
        while not self._enough.is_set():
            _, batch = self._stream.next()
            if batch is not None:
                batch.release()
                self.taken += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._enough.set()
        self._thread.join()
        self._stream.close()
        self._client.disconnect()


@pytest.fixture
def tailed(open_folder, photos):
    """Photographs of which one in forty takes many times as long as the others."""
    (open_folder / "class").mkdir()
    for number, photo in enumerate(sorted(photos.rglob("*.jpg"))[:78]):
        shutil.copy(photo, open_folder / "class" / f"light{number:03d}.jpg")
    for number in range(2):
        noise = Image.effect_noise((2500, 2000), 80).convert("RGB")
        noise.save(open_folder / "class" / f"heavy{number}.jpg", quality=90)
    return open_folder


def cpu_seconds(client, folder):
    return stream_status(client, folder)["decode_cpu_seconds"]


def test_of_two_streams_with_different_tails_neither_takes_more_than_its_share(daemon, tailed, photos):
    job = {"size": (64, 64), "batch": 8}
    with Greedy(daemon, spec(tailed, **job)) as one, Greedy(daemon, spec(photos, **job)) as two, \
            Client(daemon.socket) as watch:
        wait_for(lambda: min(one.taken, two.taken) >= 20, 120, "both streams under way")
        before = [cpu_seconds(watch, folder) for folder in (tailed, photos)]

        def used():
            now = [cpu_seconds(watch, folder) for folder in (tailed, photos)]
            return [later - earlier for later, earlier in zip(now, before)]

        wait_for(lambda: sum(used()) > 5, 120, "five seconds of work")
        # Half each while both ask; a consumer that the machine holds up lends. One for one, in samples, the tail
        # would take four fifths.
        parts = used()
        assert min(parts) > sum(parts) / 3, parts


def test_a_stream_that_stops_consuming_holds_its_own_slots_and_the_others_go_on(daemon, tailed, id_set):
    other = id_set(300)
    with Client(daemon.socket) as client, Client(daemon.socket) as watch:
        stopped = client.open(spec(tailed, batch=8, epochs=10**6), slots=SLOTS)
        with contextlib.closing(stopped):
            take(stopped)
            batches = wait_for(lambda: (found := stream_status(watch, tailed))["unread"] == SLOTS and
                               found["batches"], what="its ring filled")
            assert batches == 1 + SLOTS
            for _ in range(3):
                assert sorted(whole_epoch(watch, other)) == list(range(300))
            held = stream_status(watch, tailed)
            assert held["batches"] == 1 + SLOTS
            assert decoded(held) <= (1 + SLOTS) * 8 + 32 + 16 + 16 + 8
            for _ in range(20):  # and it goes on when it is asked
                take(stopped)


def whole_epoch(client, folder):
    stream = client.open(id_spec(folder, batch=BATCH))
    with contextlib.closing(stream):
        return [i for batch in stream.batches() for i in batch.ids()]
