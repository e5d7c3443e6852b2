"""Programs with guest workers end at once and leave nothing (LDR-07); their forks disturb nobody (LDR-10); what they
keep stays as it is and takes no descriptors (LDR-11)."""

import gc
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from support.daemon import marked, wait_for

torch = pytest.importorskip("torch")

from forking import in_child, refuses  # noqa: E402
from guest_items import Squares, as_list, same  # noqa: E402
from guest_loaders import assert_same_batches, opened, torchs  # noqa: E402
from speedyloader.torch import DataLoader  # noqa: E402
from stalls import Background  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
SECONDS = 5  # that an end may take on a busy machine; alone it is a tenth of one
ENDS = {"never iterated": 0, "held": 0, "busy guests": 0, "exception": 1, "exit 7": 7, "_exit 3": 3,
        "killed": -signal.SIGKILL, "interrupted": -signal.SIGINT}
KINDS = pytest.mark.parametrize("collate", [None, as_list], ids=["fixed", "opaque"])


def run_ends(*ways):
    """{way: (status, seconds, words)}"""
    program = pathlib.Path(__file__).with_name("guest_ends.py")
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, "-W", "ignore", program, *ways], text=True, timeout=150, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stdout
    return {way: rest for way, *rest in map(json.loads, done.stdout.splitlines())}


def nothing_is_left():
    mark = os.environ["SPEEDYLOADER_TEST_MARK"]
    wait_for(lambda: not marked(mark), 15, lambda: marked(mark))


def test_LDR_07_programs_end_at_once_with_a_status_of_their_own_and_leave_no_process(private_name):
    seen = run_ends(*ENDS)
    assert {way: status for way, (status, _, _) in seen.items()} == ENDS, seen
    assert {way: seconds for way, (_, seconds, _) in seen.items() if seconds > SECONDS} == {}
    said = {way: words for way, (_, _, words) in seen.items() if words}
    assert {way: words.splitlines()[-1] for way, words in said.items()} == {
        "exception": "ZeroDivisionError: on purpose", "interrupted": "KeyboardInterrupt"}
    assert all(words.count("Traceback") == 1 for words in said.values())
    nothing_is_left()


class WithoutCuda(Squares):
    """Items that can only be made in a process in which nobody has begun CUDA."""

    def __getitem__(self, index):
        without_cuda()
        return super().__getitem__(index)


def without_cuda():
    """Fails where the driver is in use. PyTorch itself maps NVIDIA's other libraries."""
    assert not torch.cuda.is_initialized()
    assert "libcuda.so" not in pathlib.Path("/proc/self/maps").read_text()


def test_LDR_10_neither_the_program_nor_its_guests_begin_cuda(shared_daemon):
    with opened(shared_daemon, WithoutCuda(), batch_size=4) as loader:
        assert len(list(loader)) == 10
        without_cuda()


def test_LDR_10_children_of_a_process_whose_thread_iterates_are_refused_and_disturb_nobody(shared_daemon):
    with opened(shared_daemon, Squares(400), batch_size=4) as loader, \
            opened(shared_daemon, Squares(), batch_size=4) as other:
        iterator, forked, first_epoch = iter(other), [], list(loader)  # the guests are there before the forks

        def read():
            epochs = [first_epoch]
            while not forked:
                epochs.append(list(loader))
            return epochs

        def act():
            for use in (lambda: next(iterator), lambda: iter(loader)):
                refuses(use)
            loader.close()

        first = next(iterator)
        reading = Background(read)
        for _ in range(30):
            in_child(act)
        forked.append(True)
        for epoch in reading.join(60).result:
            assert_same_batches(epoch, torchs(Squares(400), batch_size=4))
        assert_same_batches([first, *iterator], torchs(Squares(), batch_size=4))
        assert reading.error is None and not loader.report()["guests"]["lost"]


def test_LDR_10_a_forked_child_may_make_a_loader(shared_daemon):
    def act():
        with opened(shared_daemon, Squares(), batch_size=4) as own:
            assert_same_batches(list(own), torchs(Squares(), batch_size=4))

    with opened(shared_daemon, Squares(), batch_size=4) as loader:
        iterator = iter(loader)
        next(iterator)
        in_child(act)
        assert len(list(iterator)) == 9


def test_what_a_loader_started_goes_with_it(private_name):
    loader = DataLoader(Squares(), batch_size=4, num_workers=2)
    for _ in range(3):
        assert len(list(loader)) == 10
    assert sorted(marked(os.environ["SPEEDYLOADER_TEST_MARK"]).values()).count("speedyloaderd") == 1
    assert loader.report()["guests"]["lost"] == []
    del loader
    nothing_is_left()


@KINDS
def test_LDR_11_an_epoch_of_1000_batches_is_kept_unchanged_and_descriptors_do_not_grow(shared_daemon, collate):
    gc.collect()  # what tests before have left
    descriptors, kept = {len(os.listdir("/proc/self/fd"))}, []
    options = {"batch_size": 2, "collate_fn": collate}
    with opened(shared_daemon, Squares(2000), **options) as loader:
        for number, batch in enumerate(loader):
            kept.append(batch)
            if number % 100 == 10:
                descriptors.add(len(os.listdir("/proc/self/fd")))
                assert loader.stats()["held"] < 64
        assert len(descriptors) == 2, descriptors  # before it was opened, and since
        next(iter(loader))
        wanted = torchs(Squares(2000), **options)
        assert_same_batches(kept, wanted)
    assert same(kept, wanted)  # without loader and guests too


@KINDS
def test_LDR_11_descriptors_do_not_grow_over_epochs_that_are_left_early(shared_daemon, collate):
    with opened(shared_daemon, Squares(), batch_size=4, collate_fn=collate) as loader:
        seen = set()
        for _ in range(30):
            next(iter(loader))
            seen.add(len(os.listdir("/proc/self/fd")))
        assert len(seen) == 1, seen
