"""Children of a process with loaders, forked and spawned (LDR-10): clear errors, or streams of their own."""

import importlib.util
import pathlib
import pickle
import subprocess
import sys

import pytest
import speedyloader as sl
from forking import EPOCH, in_child, refuses
from stalls import id_loader, ids
from support.daemon import clean_environment, wait_for

FORKING = pathlib.Path(__file__).with_name("forking.py")
FORKS = 500
COLOURS = [(i, i) for i in EPOCH]  # (sample id, brightest channel) of the id pictures
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
# Python warns of forks beside threads; that they are harmless here is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning",
                                        "ignore:os.fork.. was called:RuntimeWarning")


def test_LDR_10_500_children_of_a_process_whose_threads_iterate_neither_hang_nor_take_a_batch(
        daemons, id_set):
    daemon = daemons.start(env={"SPEEDYLOADER_TEST_DELAY_US": 500})  # so that the threads wait, locks in hand
    process = daemons.begin_python(FORKING, daemon.socket, id_set(60), FORKS)
    epochs, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert int(epochs) > 2
    wait_for(lambda: not daemon.status()["streams"], what="the children's streams end, and the parent's")


@pytest.mark.parametrize("taken", [0, 1, 14, 15], ids=["fresh", "midway", "before-the-end", "at-the-end"])
def test_LDR_10_a_loop_over_the_parents_loader_is_refused_wherever_the_parent_is(daemon, id_set, taken):
    loader = id_loader(daemon.socket, id_set(60))
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    in_child(lambda: refuses(lambda: list(loader)))
    in_child(lambda: refuses(lambda: list(iterator)))
    assert [i for batch in iterator for i in ids(batch)] == EPOCH[4 * taken:]


def test_LDR_10_what_a_child_lets_go_of_stays_its_parents(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(600), slots=4)
    iterator = iter(loader)
    held = [next(iterator), next(iterator)]
    views = [memoryview(batch["image"]) for batch in held]
    before = [bytes(view) for view in views]

    def let_go():
        assert [bytes(view) for view in views] == before
        held.clear()
        views.clear()

    in_child(let_go)
    assert loader.stats()["held"] == 2
    # The ring goes round many times.
    assert [i for batch in iterator for i in ids(batch)] == list(range(8, 600))
    assert [bytes(view) for view in views] == before


def test_LDR_10_a_child_that_lives_on_does_not_keep_its_dead_parents_memory(daemon, id_set):
    program = """if True:
        import os, sys, speedyloader as sl
        loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8", socket=sys.argv[2])
        batch = next(iter(loader))
        if os.fork() == 0:
            print("born", flush=True)
            sys.stdin.read()
        else:
            sys.stdin.readline()
        """
    parent = subprocess.Popen([sys.executable, "-c", program, id_set(60), daemon.socket], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert parent.stdout.readline() == "born\n"
        assert len(daemon.status()["streams"]) == 1
        parent.kill()
        parent.wait(30)
        wait_for(lambda: not daemon.status()["streams"], 10, "the daemon frees what the dead one had")
    finally:
        parent.stdin.close()  # the child ends
        parent.stdout.read()
        parent.stdout.close()


# ---- pickled and spawned ----


def test_LDR_10_a_pickled_loader_becomes_a_stream_of_its_own(daemon, id_set):
    loader = id_loader(daemon.socket, id_set(60))
    iterator = iter(loader)
    assert ids(next(iterator)) == [0, 1, 2, 3]
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.spec == loader.spec
    assert [i for batch in copy for i in ids(batch)] == EPOCH
    assert [i for batch in iterator for i in ids(batch)] == EPOCH[4:]


@needs_torch
def test_LDR_10_a_forked_worker_of_torchs_dataloader_may_make_a_loader(daemon, id_set):
    from worker_datasets import Building, through_worker

    data = Building(str(daemon.socket), str(id_set(60)))
    assert through_worker(data, "fork") == COLOURS
    assert through_worker(data, "fork") == COLOURS
    wait_for(lambda: not daemon.status()["streams"], what="the workers' streams end")


@needs_torch
def test_LDR_10_a_spawned_worker_of_torchs_dataloader_may_make_a_loader_or_bring_one_along(daemon, id_set):
    from worker_datasets import Building, Carrying, through_worker

    where = str(daemon.socket), str(id_set(60))
    carrying = Carrying(*where)
    assert through_worker(Building(*where) + carrying, "spawn") == COLOURS + COLOURS
    assert [i for batch in carrying.iterator for i in ids(batch)] == EPOCH[4:]


@needs_torch
def test_LDR_10_a_forked_worker_of_torchs_dataloader_says_what_to_do_about_its_parents_loader(daemon, id_set):
    from worker_datasets import Carrying, through_worker

    data = Carrying(str(daemon.socket), str(id_set(60)))
    with pytest.raises(sl.ForkedError, match="make a loader in the child"):
        through_worker(data, "fork")
    assert [i for batch in data.iterator for i in ids(batch)] == EPOCH[4:]


# ---- CUDA ----


def test_LDR_10_an_epoch_in_a_process_without_frameworks_maps_no_library_of_cuda(daemon, id_set):
    program = """if True:
        import re, sys, speedyloader as sl
        loader = sl.Loader(sys.argv[1], [sl.Resize((2, 2))], batch_size=4, dtype="uint8", socket=sys.argv[2])
        kept = [(batch, memoryview(batch["image"]), batch["label"].__dlpack__()) for batch in loader]
        mapped = {line.rpartition("/")[2].strip() for line in open("/proc/self/maps") if "/" in line}
        print(len(kept), [name for name in mapped if re.match("lib(cu|nv)", name)],
              [name for name in ("torch", "jax", "tensorflow", "numpy") if name in sys.modules],
              any(name.startswith("libspeedyloader") for name in mapped))
        """
    done = subprocess.run([sys.executable, "-c", program, id_set(60), daemon.socket], capture_output=True,
                          text=True, env=clean_environment(), timeout=60)
    assert (done.stdout, done.stderr) == ("15 [] [] True\n", "")
