"""Arguments of speedyloader.torch.DataLoader: torch's work, others are refused by name with advice; what guests
are told of themselves is what torch tells its workers."""

import inspect
import os
import re
import subprocess
import sys

import pytest
import speedyloader as sl
from support.daemon import marked, wait_for

torch = pytest.importorskip("torch")

from guest_items import Squares, Telling  # noqa: E402
from guest_loaders import opened  # noqa: E402
from speedyloader.torch import DataLoader  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Endless(data.IterableDataset):
    def __iter__(self):
        return iter(())


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
    ({"multiprocessing_context": 3}, TypeError, "start method"),
    ({"dataset": Endless()}, TypeError, "IterableDataset"), ({"dataset": 3}, TypeError, "__getitem__")], ids=str)
def test_what_is_wrong_is_named(options, kind, said):
    with pytest.raises(kind, match=re.escape(said)):
        DataLoader(**{"dataset": Squares()} | options)


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


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
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


def test_in_a_forked_child_the_parents_loader_is_refused_and_the_parents_goes_on(shared_daemon):
    with opened(shared_daemon, Squares(), batch_size=4) as loader:
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            try:
                next(iterator)
            except sl.ForkedError:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(list(iterator)) == 9


def test_what_a_loader_started_goes_with_it(private_name):
    mark = os.environ["SPEEDYLOADER_TEST_MARK"]
    loader = DataLoader(Squares(), batch_size=4, num_workers=2)
    for _ in range(3):
        assert len(list(loader)) == 10
    assert sorted(marked(mark).values()).count("speedyloaderd") == 1
    assert loader.report()["guests"]["lost"] == []
    del loader
    wait_for(lambda: not marked(mark), 15, lambda: marked(mark))


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise OSError", "os._exit(3)", "os.kill(os.getpid(), 9)"],
                         ids=["end", "exit", "raise", "_exit", "kill"])
def test_nothing_is_left_of_a_program_however_it_ends(private_name, tmp_path, end):
    script = tmp_path / "program.py"
    script.write_text(f"""if True:
        import os, sys
        sys.path[:0] = {sys.path!r}
        from guest_items import Squares
        from speedyloader.torch import DataLoader
        if __name__ == "__main__":
            loader = DataLoader(Squares(), batch_size=4, num_workers=2)
            batch = next(iter(loader))
            iterator = iter(loader)
            batch = next(iterator)
            {end}
        """)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr or "raise OSError" in done.stderr
    wait_for(lambda: not marked(os.environ["SPEEDYLOADER_TEST_MARK"]), 15,
             lambda: marked(os.environ["SPEEDYLOADER_TEST_MARK"]))
