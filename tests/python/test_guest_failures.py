"""Items and guests that fail: an exception comes where its batch would, with the item's index and the user's
traceback, the next batch comes after it, and nobody else is affected."""

import os
import resource
import signal

import pytest
import speedyloader as sl
from support.daemon import wait_for

torch = pytest.importorskip("torch")

from guest_items import Misbehaving, Squares, as_list, dawdles, dies, fails  # noqa: E402
from guest_loaders import assert_same_batches, opened, torchs, walk  # noqa: E402
from speedyloader.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.mark.parametrize("at", [0, 7, 39], ids=["first", "amid", "last"])
@pytest.mark.parametrize("collate", [None, as_list], ids=["fixed", "opaque"])
def test_an_item_that_raises_is_raised_at_its_batch_and_the_others_come(shared_daemon, at, collate):
    options = {"batch_size": 4, "collate_fn": collate}
    with opened(shared_daemon, Misbehaving("raises", at), **options) as loader:
        for epoch in range(2):
            seen = walk(iter(loader))
            error = seen.pop(at // 4)
            assert type(error) is LookupError and f"item {at}" in str(error)
            assert "in __getitem__" in str(error) and f"no such thing as {at}" in str(error)
            wanted = torchs(Squares(), epoch, **options)
            del wanted[at // 4]
            assert_same_batches(seen, wanted)


def test_the_samples_error_is_the_cause(shared_daemon):
    with opened(shared_daemon, Misbehaving("raises"), batch_size=4) as loader:
        error = walk(iter(loader))[1]
        assert type(error.__cause__) is sl.SampleError and error.__cause__.kind == "raised"
        assert error.__cause__.path == "Misbehaving[7]"


@pytest.mark.parametrize(("what", "said"), [("exits", "poison"), ("dies", "poison")])
def test_LDR_05_an_item_that_ends_its_guest_is_an_error_and_guests_are_begun_again(shared_daemon, what, said):
    with opened(shared_daemon, Misbehaving(what), batch_size=4) as loader:
        seen = walk(iter(loader))
        error = seen.pop(1)
        assert type(error) is RuntimeError and "item 7" in str(error) and said in str(error)
        wanted = torchs(Squares(), batch_size=4)
        del wanted[1]
        assert_same_batches(seen, wanted)
        lost = loader.report()["guests"]["lost"]
        assert len(lost) == 2 and {one["exit_status"] for one in lost} == {3 if what == "exits" else -9}


@pytest.mark.parametrize("at", [0, 7])
def test_an_item_that_takes_longer_than_the_timeout(shared_daemon, at):
    with opened(shared_daemon, Misbehaving("waits", at), batch_size=4, timeout=0.5) as loader:
        seen = walk(iter(loader))
        error = seen.pop(at // 4)
        assert type(error) is RuntimeError and f"DataLoader timed out after 0.5 seconds: item {at}" in str(error)
        wanted = torchs(Squares(), batch_size=4)
        del wanted[at // 4]
        assert_same_batches(seen, wanted)


def test_a_timeout_is_that_of_an_item_and_not_of_a_guest_that_begins(shared_daemon):
    with opened(shared_daemon, Squares(), batch_size=4, timeout=0.5, worker_init_fn=dawdles) as loader:
        assert_same_batches(list(loader), torchs(Squares(), batch_size=4))
        assert not loader.report()["guests"]["lost"]


def test_an_item_that_is_none_is_what_torch_says_of_it(shared_daemon):
    with opened(shared_daemon, Misbehaving("none"), batch_size=4) as loader:
        seen = walk(iter(loader))
        assert type(seen[1]) is TypeError and "NoneType" in str(seen[1])
        wanted = torchs(Squares(), batch_size=4)
        assert_same_batches(seen[:1] + seen[2:], wanted[:1] + wanted[2:])


def test_refill_puts_another_item_there_and_the_report_names_the_one_that_failed(shared_daemon):
    with opened(shared_daemon, Misbehaving("raises"), batch_size=4, errors="refill") as loader:
        ids = [batch[1].tolist() for batch in loader]
        assert [len(batch) for batch in ids] == [4] * 10 and 7 not in ids[1]
        (failure,) = loader.report()["streams"][0]["failures"]
        assert failure["sample_id"] == 7 and failure["kind"] == "raised"


@pytest.mark.parametrize("collate", [None, as_list], ids=["fixed", "opaque"])
def test_placeholder_leaves_the_item_out_of_its_batch(shared_daemon, collate):
    options = {"batch_size": 4, "errors": "placeholder", "collate_fn": collate}
    with opened(shared_daemon, Misbehaving("raises"), **options) as loader:
        batches = list(loader)
    ids = [batch[1].tolist() if collate is None else [item[1] for item in batch[1:]] for batch in batches]
    assert ids[0] == [0, 1, 2, 3] and ids[1] == [4, 5, 6] and ids[2] == [8, 9, 10, 11]


def test_a_batch_of_which_nothing_is_left_is_passed_by(shared_daemon):
    with opened(shared_daemon, Misbehaving("raises", count=9), batch_size=1, errors="placeholder") as loader:
        assert [batch[1].item() for batch in loader] == [0, 1, 2, 3, 4, 5, 6, 8]


@pytest.mark.parametrize(("init", "kind"), [(fails, OSError), (dies, RuntimeError)])
def test_guests_that_cannot_begin_are_raised_and_do_not_hang(shared_daemon, init, kind):
    with opened(shared_daemon, Squares(), batch_size=4, worker_init_fn=init) as loader:
        for _ in range(2):
            with pytest.raises(kind):
                list(loader)


def test_LDR_05_guests_that_are_killed_again_and_again_lose_no_item(shared_daemon):
    with opened(shared_daemon, Squares(400), batch_size=4, num_workers=3) as loader:
        seen = []
        for number, batch in enumerate(loader):
            seen.append(batch)
            if number % 20 == 5:
                victim = loader._shared.crew._members[number // 20 % 3].process.pid
                os.kill(victim, signal.SIGKILL)
                wait_for(lambda: any(one["pid"] == victim for one in loader.report()["guests"]["lost"]))
        assert_same_batches(seen, torchs(Squares(400), batch_size=4))


class Leaking(Squares):
    """Keeps more and more in item 7, until there is no memory left."""

    kept = []

    def __getitem__(self, index):
        while index == 7:
            self.kept.append(bytearray(32 << 20))
        return super().__getitem__(index)


def half_a_gibibyte_more(_):
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 29), now + (1 << 29)))


def test_an_item_that_eats_its_guests_memory_is_named_and_the_others_come(shared_daemon):
    with opened(shared_daemon, Leaking(), batch_size=4, worker_init_fn=half_a_gibibyte_more) as loader:
        seen = walk(iter(loader))
        error = seen.pop(1)
        assert type(error) is MemoryError and "item 7" in str(error)
        wanted = torchs(Squares(), batch_size=4)
        del wanted[1]
        assert_same_batches(seen, wanted)


def test_a_collate_fn_that_raises_does_so_at_its_batch(shared_daemon):
    def collate(items):
        if any(index == 7 for _, index in items):
            raise ZeroDivisionError("seven")
        return len(items)

    with opened(shared_daemon, Squares(12), batch_size=4, collate_fn=collate) as loader:
        seen = walk(iter(loader))
        assert seen[0] == seen[2] == 4 and type(seen[1]) is ZeroDivisionError


def test_an_item_of_a_gibibyte_comes_or_is_refused_with_both_numbers(shared_daemon):
    class Huge(Squares):
        def __getitem__(self, index):
            return torch.zeros(1 << 30, dtype=torch.uint8) if index == 3 else torch.zeros(3, dtype=torch.uint8)

    with opened(shared_daemon, Huge(6), batch_size=1) as loader:
        seen, iterator = [], iter(loader)
        try:
            for batch in iterator:
                seen.append(batch.shape[1])
                del batch
            assert seen == [3, 3, 3, 1 << 30, 3, 3]
        except sl.BudgetError as error:
            assert seen == [3, 3, 3] and str(1 << 30)[:4] in str(error)


def test_without_any_daemon_the_first_batch_says_so_and_not_that_one_was_lost(tmp_path):
    loader = DataLoader(Squares(8), batch_size=2, num_workers=1, socket=tmp_path / "nobody")
    with pytest.raises(sl.NoDaemonError):
        next(iter(loader))
