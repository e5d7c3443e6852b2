"""`sl.Tensor` and `sl.Batch` by themselves: what they say, the buffer protocol, NumPy's interface, copies."""

import ctypes
import io
import struct

import numpy
import pytest
from holding import ids_of, open_ids, raw

pytestmark = pytest.mark.sanitized

FORMATS = {"float32": "f", "float16": "e", "uint8": "B", "int64": "q", "uint64": "Q", "int32": "i"}
BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "uint8": 8}
PyBUF_WRITABLE, PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES = 1, 4, 8, 0x18
PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_ANY_CONTIGUOUS = 0x38, 0x58, 0x98


class PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p),
                ("internal", ctypes.c_void_p)]


# ---- what they say of themselves ----


def test_a_tensor_knows_its_shape_type_and_place(batch, dtype):
    image = batch["image"]
    assert (image.shape, image.strides, image.ndim) == ((3, 3, 5, 7), (105, 35, 7, 1), 4)
    assert (len(image), image.dtype, image.device, image.readonly) == (3, dtype, "cpu", True)
    assert (image.itemsize, image.nbytes) == (BITS[dtype] // 8, 315 * BITS[dtype] // 8)
    assert repr(image) == f"speedyloader.Tensor(shape=(3, 3, 5, 7), dtype={dtype}, read-only)"
    assert repr(batch.copy()["label"]) == "speedyloader.Tensor(shape=(3,), dtype=int64)"
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in batch.items()} == {
        "image": (dtype, (3, 3, 5, 7)), "label": ("int64", (3,)), "sample_id": ("uint64", (3,)),
        "valid": ("uint8", (3,)), "crop_box": ("int32", (3, 4)), "flip": ("uint8", (3,))}
    places = sorted((tensor.data_ptr, tensor.data_ptr + tensor.nbytes) for _, tensor in batch.items())
    assert all(end <= start for (_, end), (start, _) in zip(places, places[1:]))


def test_a_batch_is_a_mapping_of_its_tensors(batch, dtype):
    names = ["image", "label", "sample_id", "valid", "crop_box", "flip"]
    assert list(batch) == list(batch.keys()) == list(dict(batch)) == names
    assert "label" in batch and "mask" not in batch
    with pytest.raises(KeyError, match=f"no tensor 'mask'; there are: {' '.join(names)}"):
        batch["mask"]
    assert (batch.count, batch.epoch, batch.index, batch.step, batch.copied) == (3, 0, 0, 0, False)
    start = f"<speedyloader.Batch 0 of epoch 0: image: {dtype}[3, 3, 5, 7], label: int64[3]"
    assert repr(batch).startswith(start)
    known = batch.samples()
    assert [row["sample_id"] for row in known] == memoryview(batch["sample_id"]).tolist()
    assert [row["planned_id"] for row in known] == memoryview(batch["sample_id"]).tolist()
    assert all(row["valid"] and row["lane"] in ("light", "medium", "heavy") for row in known)


# ---- buffer protocol ----


def get_buffer(tensor, flags):
    view = PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(tensor), ctypes.byref(view), flags)
    return view


def release(view):
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


def test_a_memoryview_describes_every_tensor(batch):
    for tensor in (tensor for each in (batch, batch.copy()) for _, tensor in each.items()):
        if tensor.dtype == "bfloat16":
            with pytest.raises(BufferError, match="no bfloat16"):
                memoryview(tensor)
            continue
        view = memoryview(tensor)
        assert view.format == FORMATS[tensor.dtype]
        assert (view.itemsize, view.nbytes) == (tensor.itemsize, tensor.nbytes)
        assert (view.shape, view.ndim, view.c_contiguous) == (tensor.shape, tensor.ndim, True)
        assert view.strides == tuple(step * tensor.itemsize for step in tensor.strides)
        assert view.readonly == tensor.readonly
        assert (tensor.dtype, view.shape, view.tobytes()) == raw(tensor)
        assert bytes(tensor) == raw(tensor)[2]


def test_consumers_of_bytes_take_a_tensor(loader):
    batch = next(iter(loader))
    labels, image = batch["label"], batch["image"]
    assert list(struct.unpack_from("<2q", labels)) == memoryview(labels).tolist()
    assert b"".join([image, labels]) == bytes(image) + bytes(labels)
    file = io.BytesIO()
    assert file.write(image) == 24
    assert file.getvalue() == raw(image)[2]


def test_a_writable_buffer_is_refused_for_the_ring_and_given_for_a_copy(loader):
    batch = next(iter(loader))
    with pytest.raises(BufferError, match="read-only; copy=True gives memory of your own"):
        get_buffer(batch["image"], PyBUF_WRITABLE)
    with pytest.raises(TypeError, match="read-only"):
        memoryview(batch["image"])[0, 0, 0, 0] = 1
    own = batch.copy()
    view = get_buffer(own["image"], PyBUF_WRITABLE)
    assert (view.buf, view.readonly) == (own["image"].data_ptr, 0)
    release(view)
    memoryview(own["image"])[1, 0, 1, 2] = 99
    assert numpy.asarray(own["image"])[1, 0, 1, 2] == 99
    struct.pack_into("<q", own["label"], 8, -5)
    assert memoryview(own["label"])[1] == -5
    assert io.BytesIO(b"z" * 24).readinto(own["image"]) == 24
    assert bytes(own["image"]) == b"z" * 24


@pytest.mark.parametrize("flags, has_format, has_shape, has_strides", [
    (0, False, False, False), (PyBUF_FORMAT, True, False, False), (PyBUF_ND, False, True, False),
    (PyBUF_STRIDES, False, True, True), (PyBUF_C_CONTIGUOUS, False, True, True),
    (PyBUF_ANY_CONTIGUOUS | PyBUF_FORMAT, True, True, True),
], ids=["simple", "format", "nd", "strides", "c-contiguous", "any-contiguous-format"])
def test_a_buffer_has_what_was_asked_for_and_no_more(loader, flags, has_format, has_shape, has_strides):
    image = next(iter(loader))["image"]
    view = get_buffer(image, flags)
    assert (view.buf, view.len, view.itemsize, view.readonly) == (image.data_ptr, 24, 1, 1)
    assert view.format == (b"B" if has_format else None)
    assert bool(view.shape) is has_shape and bool(view.strides) is has_strides
    if has_shape:
        assert tuple(view.shape[:view.ndim]) == (2, 2, 2, 3)
    if has_strides:
        assert tuple(view.strides[:view.ndim]) == (12, 6, 3, 1)
    release(view)


def test_a_buffer_in_column_order_is_refused_where_it_would_differ(loader):
    batch = next(iter(loader))
    with pytest.raises(BufferError):
        get_buffer(batch["image"], PyBUF_F_CONTIGUOUS)
    release(get_buffer(batch["label"], PyBUF_F_CONTIGUOUS))


# ---- NumPy's interface ----


def test_the_array_interface_describes_every_tensor_but_bfloat16(batch):
    for tensor in (tensor for each in (batch, batch.copy()) for _, tensor in each.items()):
        if tensor.dtype == "bfloat16":
            assert not hasattr(tensor, "__array_interface__")
            with pytest.raises(AttributeError, match="no bfloat16"):
                tensor.__array_interface__
            continue
        interface = tensor.__array_interface__
        assert interface == {"shape": tensor.shape, "typestr": numpy.dtype(tensor.dtype).str, "strides": None,
                             "data": (tensor.data_ptr, tensor.readonly), "version": 3}


def test_numpy_gets_bfloat16_through_ml_dtypes(batch, dtype):
    array = batch.numpy("image")
    assert (array.dtype.name, array.ctypes.data) == (dtype, batch["image"].data_ptr)
    assert (array.dtype.name, array.shape, array.tobytes()) == raw(batch["image"])
    assert not array.flags.writeable
    if dtype == "bfloat16":
        as_float = (array.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        assert (array.astype(numpy.float32) == as_float).all()


def test_asarray_gives_the_bytes_with_their_type_and_copies_only_if_asked(batch, dtype):
    """Bfloat16 too, which NumPy knows by ml_dtypes only: never an array of objects."""
    image = batch["image"]
    array = numpy.asarray(image)
    assert (array.dtype.name, array.shape, array.tobytes()) == raw(image)
    assert array.ctypes.data == image.data_ptr and not array.flags.writeable
    own = numpy.array(image)
    assert own.ctypes.data != image.data_ptr and own.flags.writeable
    assert (own.dtype.name, own.shape, own.tobytes()) == raw(image)
    as_float = numpy.asarray(image, dtype=numpy.float32)
    assert as_float.dtype == numpy.float32 and (as_float == array.astype(numpy.float32)).all()


# ---- copies ----


def test_a_copied_batch_is_the_same_in_private_memory(batch):
    own = batch.copy()
    assert own.copied and not batch.copied
    assert (own.count, own.epoch, own.index, own.step) == (batch.count, batch.epoch, batch.index, batch.step)
    assert own.samples() == batch.samples()
    assert [(name, raw(tensor)) for name, tensor in own.items()] == [
        (name, raw(tensor)) for name, tensor in batch.items()]
    for name, tensor in own.items():
        assert tensor.data_ptr % 256 == 0
        assert not tensor.readonly
        ctypes.memset(tensor.data_ptr, 0x5A, tensor.nbytes)
        assert raw(tensor)[2] != raw(batch[name])[2]
    again = own.copy()
    assert again["image"].data_ptr != own["image"].data_ptr
    assert raw(again["image"]) == raw(own["image"])


def test_a_copying_loader_gives_only_private_batches_and_holds_nothing(shared_daemon, id_set):
    with open_ids(id_set(40), shared_daemon.socket, copy=True) as loader:
        kept = list(loader)
        assert all(batch.copied and not batch["image"].readonly for batch in kept)
        assert len({batch["image"].data_ptr for batch in kept}) == 20
        stats = loader.stats()
        assert (stats["held"], stats["copied"]) == (0, 20)
        for batch in kept:
            assert ids_of(bytes(batch["image"])) == memoryview(batch["sample_id"]).tolist()
