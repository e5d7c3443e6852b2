"""What PyTorch does in place to a zero-copy tensor shows in this process only, until it lets the batch go."""

import os
import signal

import numpy
import pytest
from support.specs import spec

import speedyloader as sl

torch = pytest.importorskip("torch")

EPOCHS = 3
SLOTS = 4


@pytest.fixture
def loaders(shared_daemon, few_photos):
    """Two loaders of one spec, five batches of eight an epoch: one to write to, one that stays untouched."""
    job = spec(few_photos, dtype="uint8", batch=8, epochs=EPOCHS)
    with sl.Loader.from_spec(job, slots=SLOTS, socket=str(shared_daemon.socket)) as writer, \
            sl.Loader.from_spec(job, slots=SLOTS, socket=str(shared_daemon.socket)) as reader:
        yield writer, reader


def raw(batch):
    """Every tensor's bytes, past DLPack."""
    return {name: bytes(memoryview(tensor)) for name, tensor in batch.items()}


def turn_over(images, labels):
    images.bitwise_not_()
    labels.mul_(-3)


def cut_mix(images, labels):
    """Rows get a box of other rows, as torchvision's CutMix pastes it."""
    images[:, :, 10:50, 20:60] = images.flip(0)[:, :, 10:50, 20:60]
    labels[::2] = labels.flip(0)[::2]


def one_byte(images, _labels):
    images[-1, -1, -1, -1] ^= 1


@pytest.mark.parametrize("write", [turn_over, cut_mix, one_byte], ids=lambda write: write.__name__)
def test_what_torch_writes_is_seen_here_and_gone_with_the_batch(loaders, write):
    writer, reader = loaders
    for _ in range(EPOCHS):
        for ours, theirs in zip(writer, reader, strict=True):
            original = raw(theirs)
            assert raw(ours) == original, "an earlier batch's writes are still there"
            images, labels = ours.torch("image", "label")
            assert images.data_ptr() == ours["image"].data_ptr
            expected_images, expected_labels = images.clone(), labels.clone()
            write(images, labels)
            write(expected_images, expected_labels)
            assert torch.equal(images, expected_images) and torch.equal(labels, expected_labels)
            assert raw(ours) != original, "every view of the batch shows what was written"
            assert raw(theirs) == original
            del images, labels
    assert writer.stats()["copied"] == 0


def test_a_written_batch_that_is_kept_stays_as_written_while_others_pass(loaders):
    writer, reader = loaders
    batches = iter(writer)
    kept = next(batches).torch("image")
    kept.fill_(7)
    for ours, theirs in zip(batches, list(reader)[1:], strict=True):
        assert raw(ours) == raw(theirs)
        ours.torch("image").fill_(9)
    assert (kept == 7).all()
    del kept, ours
    for ours, theirs in zip(writer, reader, strict=True):
        assert raw(ours) == raw(theirs)


def test_NumPy_and_the_buffer_protocol_still_refuse_writes(loaders):
    batch = next(iter(loaders[0]))
    batch.torch("image").fill_(7)
    arrays = [batch.numpy("image"), numpy.asarray(batch["image"]), numpy.from_dlpack(batch["image"])]
    for array in arrays:
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError):
            array.flags.writeable = True
        assert (array == 7).all()
    with pytest.raises(TypeError):
        memoryview(batch["image"])[0, 0, 0, 0] = 1


def in_a_child(work):
    """work()'s truth, as a forked child finds it; a signal is an error."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_gets_copies_and_may_write_to_them(loaders):
    batch = next(iter(loaders[0]))
    original = raw(batch)

    def write():
        torch.set_num_threads(1)  # the parent's pool is not here
        image = batch["image"]
        capsule_refused = False
        try:
            image.__dlpack__(copy=False)
        except BufferError:
            capsule_refused = True
        tensor = torch.from_dlpack(image)
        expected = bytes(byte ^ 1 for byte in original["image"])
        tensor.bitwise_xor_(1)
        return (capsule_refused and tensor.data_ptr() != image.data_ptr
                and tensor.numpy().tobytes() == expected and raw(batch) == original)

    assert in_a_child(write) == 0
    assert raw(batch) == original
