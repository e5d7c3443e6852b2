"""DLPack as `sl.Tensor` speaks it: which struct, what is in it, and who ends the lease."""

import ctypes
import threading

import numpy
import pytest
from holding import (
    Exported,
    capsule_name,
    consume,
    delete,
    ids_of,
    managed_tensor,
    raw,
)

pytestmark = pytest.mark.sanitized

VERSIONS = pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])
CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "uint8": 8, "int64": 64, "uint64": 64, "int32": 32}
READ_ONLY, IS_COPIED = 1, 2


def row_major(shape):
    strides = [1] * len(shape)
    for place in range(len(shape) - 2, -1, -1):
        strides[place] = strides[place + 1] * shape[place + 1]
    return tuple(strides)


@pytest.mark.parametrize("asked, name", [
    ({}, "dltensor"), ({"max_version": None}, "dltensor"), ({"max_version": (0, 8)}, "dltensor"),
    ({"max_version": (1, 0)}, "dltensor_versioned"), ({"max_version": (1, 3)}, "dltensor_versioned"),
    ({"max_version": (2, 0)}, "dltensor_versioned"),
], ids=str)
def test_a_capsule_is_versioned_only_for_who_knows_versions(loader, asked, name):
    capsule = next(iter(loader))["image"].__dlpack__(**asked)
    assert capsule_name(capsule) == name
    if name == "dltensor_versioned":
        managed = managed_tensor(capsule)
        assert (managed.major, managed.minor) == (1, 0)


@VERSIONS
def test_DLPack_describes_every_tensor(batch, version):
    for tensor in (tensor for each in (batch, batch.copy()) for _, tensor in each.items()):
        capsule = tensor.__dlpack__(max_version=version)
        described = managed_tensor(capsule).tensor
        assert (described.device_type, described.device_id) == tensor.__dlpack_device__() == (1, 0)
        assert (described.data, described.byte_offset) == (tensor.data_ptr, 0)
        assert tuple(described.shape[:described.ndim]) == tensor.shape
        assert described.strides, "DLPack 1.2 forbids null strides"
        assert tuple(described.strides[:described.ndim]) == tensor.strides == row_major(tensor.shape)
        code = CODES[tensor.dtype.rstrip("0123456789")]
        kind = described.dtype
        assert (kind.code, kind.bits, kind.lanes) == (code, BITS[tensor.dtype], 1)


def test_flags_say_read_only_for_the_ring_and_copied_for_copies(loader):
    batch = next(iter(loader))
    own = batch.copy()
    image = batch["image"]

    def flags(tensor, **asked):
        return managed_tensor(tensor.__dlpack__(max_version=(1, 0), **asked)).flags

    assert flags(image) == flags(image, copy=False) == READ_ONLY
    assert flags(own["image"]) == 0
    assert flags(image, copy=True) == flags(own["image"], copy=True) == IS_COPIED


@VERSIONS
def test_copy_through_DLPack_is_private_memory_on_a_border_without_a_lease(loader, version):
    batch = next(iter(loader))
    before = raw(batch["image"])
    capsule = batch["image"].__dlpack__(max_version=version, copy=True)
    copy = managed_tensor(capsule).tensor
    assert copy.data != batch["image"].data_ptr
    assert copy.data % 256 == 0
    assert ctypes.string_at(copy.data, len(before[2])) == before[2]
    ctypes.memset(copy.data, 0xA5, len(before[2]))
    assert raw(batch["image"]) == before
    del batch
    assert loader.stats()["held"] == 0
    assert ctypes.string_at(copy.data, len(before[2])) == b"\xa5" * len(before[2])


@pytest.mark.parametrize("device", [(2, 0), (3, 0), (1, 1), (0, 0)])
def test_another_device_than_the_host_is_refused(loader, device):
    image = next(iter(loader))["image"]
    with pytest.raises(BufferError, match=r"dl_device must be \(1, 0\)"):
        image.__dlpack__(dl_device=device)
    assert managed_tensor(image.__dlpack__(dl_device=(1, 0))).tensor.data == image.data_ptr


@pytest.mark.parametrize("stream", [None, -1, 1, 2, 0xDEADBEEF])
def test_any_stream_is_satisfied(loader, stream):
    image = next(iter(loader))["image"]
    assert managed_tensor(image.__dlpack__(stream=stream)).tensor.data == image.data_ptr


@VERSIONS
def test_a_capsule_that_nobody_consumed_ends_its_lease_when_it_is_dropped(loader, version):
    capsule = next(iter(loader))["image"].__dlpack__(max_version=version)
    assert loader.stats()["held"] == 1
    del capsule
    assert loader.stats()["held"] == 0


@VERSIONS
def test_a_consumed_capsule_leaves_the_lease_to_the_deleter_on_any_thread(loader, version):
    capsule = next(iter(loader))["image"].__dlpack__(max_version=version)
    managed = consume(capsule)
    del capsule
    assert loader.stats()["held"] == 1
    thread = threading.Thread(target=delete, args=(managed,))
    thread.start()
    thread.join()
    assert loader.stats()["held"] == 0


@VERSIONS
def test_a_consumer_that_writes_all_the_same_changes_its_own_view_until_the_lease_ends(loader, version):
    """As PyTorch does. Every slot of the ring comes round ten times."""
    batches = 0
    for epoch in range(2):
        for batch in loader:
            expected = memoryview(batch["sample_id"]).tolist()
            assert ids_of(bytes(batch["image"])) == expected
            kept = batch.copy()
            capsule = batch["image"].__dlpack__(max_version=version)
            ctypes.memset(managed_tensor(capsule).tensor.data, 0xA5, batch["image"].nbytes)
            assert set(bytes(batch["image"])) == {0xA5}
            assert ids_of(bytes(kept["image"])) == expected
            batches += 1
            del batch, capsule
    assert batches == 40


@VERSIONS
def test_a_deleter_takes_null(loader, version):
    managed_tensor(next(iter(loader))["image"].__dlpack__(max_version=version)).deleter(None)


def test_numpy_takes_a_read_only_array_out_of_either_capsule(loader):
    batch = next(iter(loader))
    for capsule in (batch["image"].capsule(), batch["image"].__dlpack__(max_version=(1, 0))):
        given = Exported(capsule)
        array = numpy.from_dlpack(given)
        assert capsule_name(capsule).startswith("used_dltensor")
        assert array.ctypes.data == batch["image"].data_ptr
        assert not array.flags.writeable
        assert ids_of(array.tobytes()) == memoryview(batch["sample_id"]).tolist()
        del capsule, given, array
    own = batch.copy()
    array = numpy.from_dlpack(own["image"])
    assert array.flags.writeable
    array[:] = 7
    assert set(memoryview(own["image"]).cast("B").tobytes()) == {7}
