"""Arguments of speedyloader.torch.DataLoader: torch's work, others are refused by name with advice; what guests
are told of themselves is what torch tells its workers."""

import inspect
import os
import re

import pytest
from support.daemon import marked, wait_for

torch = pytest.importorskip("torch")

from guest_items import Lists, Squares, Telling  # noqa: E402
from guest_loaders import assert_same_batches, opened  # noqa: E402
from speedyloader.torch import DataLoader  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.mark.parametrize(("options", "kind", "said"), [
    ({"num_workers": -1}, ValueError, "num_workers"), ({"timeout": -1}, ValueError, "timeout"),
    ({"prefetch_factor": 0}, ValueError, "prefetch_factor"), ({"persistent_workers": False}, ValueError, "persistent"),
    ({"pin_memory_device": "cuda"}, TypeError, "pin_memory_device: leave it out"),
    ({"batchsize": 3}, TypeError, "batchsize"), ({"errors": "ignore"}, ValueError, "refill"),
    ({"order": "fast"}, ValueError, "strict"), ({"max_item_bytes": 0}, ValueError, "max_item_bytes"),
    ({"shuffle": True, "sampler": [1]}, ValueError, "mutually exclusive"),
    ({"batch_sampler": [[1]], "batch_size": 3}, ValueError, "mutually exclusive"),
    ({"batch_sampler": [[1]], "order": "ready"}, ValueError, "strict"),
    ({"batch_size": None, "drop_last": True}, ValueError, "mutually exclusive"),
    ({"batch_size": 0}, ValueError, "batch_size"), ({"multiprocessing_context": "thread"}, ValueError, "'spawn'"),
    ({"multiprocessing_context": 3}, TypeError, "should be a valid context object"),
    ({"dataset": 3}, TypeError, "__getitem__")], ids=str)
def test_what_is_wrong_is_named(options, kind, said):
    with pytest.raises(kind, match=re.escape(said)):
        DataLoader(**{"dataset": Squares()} | options)


@pytest.mark.parametrize("options", [
    {"num_workers": -1}, {"timeout": -1},
    {"batch_size": None, "drop_last": True}, {"batch_size": 11, "sampler": [1], "shuffle": True},
    {"batch_sampler": [[1]], "sampler": [1], "shuffle": True}, {"batch_sampler": [[1]], "batch_size": 11},
    {"batch_sampler": [[1]], "drop_last": True}, {"num_workers": 1, "multiprocessing_context": "bad"},
    {"num_workers": 1, "multiprocessing_context": 3.5}], ids=str)
def test_what_torch_refuses_is_refused_in_torchs_first_words(options):
    with pytest.raises((ValueError, TypeError)) as theirs:
        data.DataLoader(Squares(), **options)
    with pytest.raises(theirs.type, match=re.escape(str(theirs.value)[:40])):
        DataLoader(Squares(), **options)


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset",
                                  "persistent_workers"])
def test_what_settles_the_order_cannot_be_set_later(name):
    loader = DataLoader(Squares())
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
        setattr(loader, name, {})


def test_more_workers_than_cores_are_warned_of_where_the_loader_is_made():
    with pytest.warns(UserWarning, match="excessive worker creation might get DataLoader running slow") as seen:
        DataLoader(Squares(), num_workers=1000)
    assert seen[0].filename == __file__


def test_every_argument_of_torchs_loader_is_taken_or_refused_by_name():
    ours = inspect.signature(DataLoader).parameters
    for name in inspect.signature(data.DataLoader).parameters:
        if name not in ours:
            with pytest.raises(TypeError, match=f"does not take {name}: "):
                DataLoader(Squares(), **{name: None})


def test_every_argument_is_explained():
    text = inspect.getdoc(DataLoader)
    for name in inspect.signature(DataLoader).parameters:
        assert re.search(rf"\b{name}\b", text) or name == "others", name


def test_attributes_are_those_of_torchs_loader():
    ours, theirs = (of(Squares(), batch_size=3, shuffle=True) for of in (DataLoader, data.DataLoader))
    for name in vars(theirs):
        if not name.startswith("_") and name != "pin_memory_device":
            assert hasattr(ours, name), name
    assert ours.batch_size == 3 and len(ours) == len(theirs) and ours.num_workers == len(os.sched_getaffinity(0))


def test_a_loader_that_is_never_iterated_starts_nothing(private_name):
    DataLoader(Squares())
    assert not marked(os.environ["SPEEDYLOADER_TEST_MARK"])


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_what_guests_know_of_themselves(shared_daemon, method):
    options = {"worker_init_fn": Telling.begin, "multiprocessing_context": method, "batch_size": None}
    with opened(shared_daemon, Telling(60), **options) as loader:
        items = list(loader)
        wait_for(lambda: items.extend(loader) or {item[1] for item in items} == {0, 1})  # the last has begun too
        assert {(item[2], *item[4:]) for item in items} == {(2, 1, 1)}  # workers, calls of begin, threads
        assert len({item[3] for item in items}) == 2 and os.getpid() not in {item[3] for item in items}


def test_prefetch_factor_hints_and_reseed_are_taken(shared_daemon):
    options = {"batch_size": 4, "prefetch_factor": 2, "cost_hint": lambda index: 1 + index, "reseed": False}
    with opened(shared_daemon, Squares(), **options) as loader:
        assert len(list(loader)) == 10


def test_pin_memory_without_an_accelerator_warns_as_torch_does(shared_daemon):
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    with pytest.warns(UserWarning, match="no accelerator is found"), \
            opened(shared_daemon, Squares(), batch_size=4, pin_memory=True) as loader:
        assert len(list(loader)) == 10


def test_the_loader_is_generic():
    class Own(DataLoader[int]):
        pass

    assert len(Own(Squares(), batch_size=4)) == len(DataLoader[int](Squares(), batch_size=4)) == 10


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": 4, "shuffle": True}], ids=str)
def test_a_data_set_that_is_asked_for_lists_only(shared_daemon, options):
    torch.manual_seed(4)
    theirs = list(data.DataLoader(Lists(), **options))
    torch.manual_seed(4)
    with opened(shared_daemon, Lists(), **options) as loader:
        assert_same_batches(list(loader), theirs)


def test_a_data_set_with_items_and_lists_is_asked_for_items(shared_daemon):
    class Both(Lists):
        def __getitem__(self, index):
            return torch.full((2,), index)

        def __getitems__(self, indices):
            raise AssertionError("lists are asked for")

    with opened(shared_daemon, Both(), batch_size=4) as loader:
        assert [batch[:, 0].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
