"""What fails in a shard of an IterableDataset: an exception comes where its batch would, and the next batch comes
after it; with a guest its shard is lost, and the epoch."""

import os
import types

import pytest
import speedyloader as sl
from support.daemon import wait_for

torch = pytest.importorskip("torch")

from guest_loaders import assert_same_batches, opened, walk  # noqa: E402
from guest_shards import Shard, Stumbling, Uneven  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.mark.parametrize(("dataset", "options"), [
    (Stumbling("raises", 5, 9, 9), {"batch_size": 2}), (Stumbling("raises", 0, 9, 9), {"batch_size": 2}),
    (Stumbling("raises", 5, 9, 9, goes_on=True), {"batch_size": 2}),
    (Stumbling("raises", 5, 9, 9), {"batch_size": None})],
    ids=["amid", "first", "goes on", "items"])
def test_an_exception_is_raised_at_its_batch_with_the_users_traceback(shared_daemon, dataset, options):
    theirs = walk(iter(data.DataLoader(dataset, num_workers=2, **options)))
    with opened(shared_daemon, dataset, **options) as loader:
        for _ in range(2):
            ours = walk(iter(loader))
            (place,) = [place for place, one in enumerate(theirs) if isinstance(one, Exception)]
            error = ours.pop(place)
            assert type(error) is LookupError and "of shard 1" in str(error)
            assert "in item" in str(error) and "iterating.py" not in str(error)
            assert_same_batches(ours, theirs[:place] + theirs[place + 1:])


def test_an_iterator_that_does_not_begin_is_raised_in_each_shard(shared_daemon):
    with opened(shared_daemon, Stumbling("does not begin", 0, 9, 9), batch_size=2) as loader:
        for _ in range(2):
            assert [type(one) for one in walk(iter(loader))] == [LookupError, LookupError]


def test_a_batch_that_cannot_be_sent_is_raised_and_the_next_one_comes(shared_daemon):
    with opened(shared_daemon, Stumbling("unpicklable", 3, 6), batch_size=None, num_workers=1) as loader:
        seen = walk(iter(loader))
    assert isinstance(seen[3], Exception) and "lambda" in str(seen[3])
    assert [batch[1] for place, batch in enumerate(seen) if place != 3] == [0, 1, 2, 4, 5]


def test_a_collate_fn_that_raises_does_so_at_its_batch(shared_daemon):
    def collate(items):
        if any(number == 5 for _, number, _ in items):
            raise ZeroDivisionError("five")
        return len(items)

    with opened(shared_daemon, Stumbling(None, 0, 9), batch_size=2, num_workers=1, collate_fn=collate) as loader:
        seen = walk(iter(loader))
    assert type(seen[2]) is ZeroDivisionError and "in collate" in str(seen[2])
    assert seen[:2] + seen[3:] == [2, 2, 2, 1]


@pytest.mark.parametrize(("what", "said"), [
    ("dies", "is killed by signal: Killed"), ("waits", "timed out after 0.5 seconds")])
def test_with_its_guest_a_shard_is_lost_and_the_epoch_ends_and_the_next_one_is_whole(shared_daemon, what, said):
    dataset = Stumbling(what, 5, 9, 9)
    with opened(shared_daemon, dataset, batch_size=2, timeout=0.5 if what == "waits" else 0) as loader:
        for epoch in range(2):
            seen = walk(iter(loader))
            error = seen.pop()
            assert type(error) is RuntimeError and said in str(error) and "shard" in str(error)
            assert len(seen) <= 5 and all(shard.tolist()[0] == place % 2 for place, (shard, *_) in enumerate(seen))
            state = loader.state_dict()
            assert (state["epoch"], state["batches"]) == (epoch, len(seen))
        assert len(loader.report()["guests"]["lost"]) == 2


def test_behind_a_guests_death_a_state_goes_on(shared_daemon, tmp_path):
    class Once(Shard):
        def item(self, shard, number):
            if (shard, number) == (1, 5) and not (tmp_path / "done").exists():
                (tmp_path / "done").touch()
                os.kill(os.getpid(), 9)
            return super().item(shard, number)

    with opened(shared_daemon, Once(9, 9), batch_size=2, seed=3) as loader:
        seen = walk(iter(loader))
        assert type(seen.pop()) is RuntimeError
        loader.load_state_dict(loader.state_dict())
        whole = seen + list(loader)
    with opened(shared_daemon, Shard(9, 9), batch_size=2, seed=3) as loader:
        assert_same_batches(whole, list(loader))


def test_a_worker_init_fn_that_raises_is_raised_in_every_epoch(shared_daemon):
    def init(number):
        raise OSError(f"guest {number} does not want to")

    with opened(shared_daemon, Shard(9, 9), batch_size=2, worker_init_fn=init) as loader:
        for _ in range(2):
            with pytest.raises(OSError, match="does not want to"):
                list(loader)


def test_a_guest_that_is_busy_when_the_daemon_goes_works_for_the_next_one(daemons):
    first, link = daemons.start(), daemons.folder / "link"
    link.symlink_to(first.socket)
    dataset = Uneven(8, slow=3, seconds=2)
    with opened(types.SimpleNamespace(socket=link), dataset, num_workers=1, batch_size=None) as loader:
        iterator = iter(loader)
        assert next(iterator) == 0
        wait_for(lambda: dataset.made.value == 3, what="the guest at the slow item")
        first.kill()
        with pytest.raises(sl.DisconnectedError):
            list(iterator)
        link.unlink()
        link.symlink_to(daemons.start().socket)
        assert list(loader) == list(range(8))
