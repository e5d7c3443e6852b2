"""What the tests of tensors, leases and kept batches share: ways into each framework, batches that are ids.

Frameworks are imported when they are first asked for. No failures of its own beyond what they raise.
"""

import ctypes
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

FRAMEWORKS = ("numpy", "torch", "jax", "tf")
SIDE = 2  # pixels of an id picture
WAIT_S = 60  # for a batch that does not come


def capsule_of(array):
    """A legacy DLPack capsule of a TensorFlow tensor, which has no public way to its address."""
    import tensorflow

    return tensorflow.experimental.dlpack.to_dlpack(array)


def address(framework, array):
    """Where an array's first element lies."""
    if framework == "numpy":
        return array.ctypes.data
    if framework == "torch":
        return array.data_ptr()
    if framework == "jax":
        return array.unsafe_buffer_pointer()
    return managed_tensor(capsule_of(array)).tensor.data


def content(framework, array):
    """(dtype's name, shape, bytes in row-major order) of an array."""
    if framework == "torch":
        import torch

        raw = array.contiguous().view(torch.uint8).numpy().tobytes()
        return str(array.dtype).removeprefix("torch."), tuple(array.shape), raw
    if framework == "tf":
        return array.dtype.name, tuple(array.shape), array.numpy().tobytes()
    import numpy

    return array.dtype.name, array.shape, numpy.asarray(array).tobytes()


def raw(tensor):
    """The same of a Tensor, past every protocol: the bytes at its address."""
    return tensor.dtype, tensor.shape, ctypes.string_at(tensor.data_ptr, tensor.nbytes)


# ---- batches whose pixels are their sample ids ----


def open_ids(folder, socket, **options):
    """A loader of id pictures: uint8, NHWC, SIDE x SIDE, four slots."""
    import speedyloader as sl

    options = {"batch_size": 2, "slots": 4, "last": "keep", "timeout": WAIT_S, **options}
    return sl.Loader(folder, [sl.Resize((SIDE, SIDE))], dtype="uint8", layout="NHWC", socket=str(socket),
                     **options)


def open_every_tensor(folder, socket, dtype):
    """A loader of random 5 x 7 crops in threes with all tensors that there are."""
    import speedyloader as sl

    normalize = [] if dtype == "uint8" else [sl.Normalize((0.5,) * 3, (0.25,) * 3)]
    return sl.Loader(folder, [sl.RandomResizedCrop((5, 7)), *normalize], batch_size=3, dtype=dtype,
                     explain=True, timeout=WAIT_S, socket=str(socket))


def ids_of(pixels):
    """The ids that the bytes of `image` show; every pixel of a row has to say the same."""
    row = SIDE * SIDE * 3
    rows = [pixels[start:start + row] for start in range(0, len(pixels), row)]
    assert all(row == row[:3] * (SIDE * SIDE) for row in rows), "a row is no picture of one colour"
    return [int.from_bytes(row[:3], "little") for row in rows]


def planned_ids(folder, socket, **options):
    """The ids of one epoch, batch by batch, each copied and let go of at once."""
    with open_ids(folder, socket, **options) as loader:
        return [memoryview(batch["sample_id"]).tolist() for batch in loader]


# ---- everything that can hold a batch: name -> (made of a batch, the bytes of its last rows) ----


def _read_capsule(capsule):
    tensor = managed_tensor(capsule).tensor
    return ctypes.string_at(tensor.data, tensor.shape[0] * SIDE * SIDE * 3)


def _read_storage(storage):
    return ctypes.string_at(storage.data_ptr(), storage.nbytes())


PLAIN_HOLDERS = {
    "batch": (lambda batch: batch, lambda held: bytes(held["image"])),
    "tensor": (lambda batch: batch["image"], bytes),
    "memoryview": (lambda batch: memoryview(batch["image"]), bytes),
    "numpy view": (lambda batch: batch.numpy("image"), lambda held: held.tobytes()),
    "numpy slice": (lambda batch: batch.numpy("image")[1:], lambda held: held.tobytes()),
    "capsule": (lambda batch: batch["image"].capsule(), _read_capsule),
    "versioned capsule": (lambda batch: batch["image"].__dlpack__(max_version=(1, 0)), _read_capsule),
}
FRAMEWORK_HOLDERS = {
    "torch slice": (lambda batch: batch.torch("image")[1:], lambda held: held.numpy().tobytes()),
    "torch storage": (lambda batch: batch.torch("image").untyped_storage(), _read_storage),
    "numpy of torch": (lambda batch: batch.torch("image").numpy()[1:], lambda held: held.tobytes()),
    "jax array": (lambda batch: batch.jax("image"), lambda held: content("jax", held)[2]),
    "tf tensor": (lambda batch: batch.tf("image"), lambda held: held.numpy().tobytes()),
}
HOLDERS = PLAIN_HOLDERS | FRAMEWORK_HOLDERS


def hold(kinds, batch):
    """{kind: a holder of that kind}, and nothing else."""
    return {kind: HOLDERS[kind][0](batch) for kind in kinds}


def shows(kind, held, ids):
    """Whether a holder still shows the (last) ids of its batch."""
    shown = ids_of(HOLDERS[kind][1](held))
    return shown != [] and shown == ids[-len(shown):]


def ring_mappings():
    """How many batch rings this process has mapped, in however many pieces."""
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return len({line.split()[4] for line in maps if "memfd:speedyloader-batches" in line})


# ---- DLPack's structs, as dlpack.h has them ----


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


# Called without the GIL, as a framework's own thread would.
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", DELETER), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


_python = ctypes.pythonapi
_python.PyCapsule_GetName.restype = ctypes.c_char_p
_python.PyCapsule_GetName.argtypes = [ctypes.py_object]
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

# A capsule's name after consumption is not copied by SetName, so it has to stay.
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


def capsule_name(capsule):
    return _python.PyCapsule_GetName(capsule).decode()


def managed_tensor(capsule):
    """The struct in a capsule; it lives as long as the capsule, or if consumed, until the deleter's call."""
    name = _python.PyCapsule_GetName(capsule)
    kind = Versioned if b"versioned" in name else Managed
    return kind.from_address(_python.PyCapsule_GetPointer(capsule, name))


def consume(capsule):
    """What a consumer does: renames the capsule and is now the one who has to call the deleter. Returns its
    struct."""
    managed = managed_tensor(capsule)
    _python.PyCapsule_SetName(capsule, _USED[_python.PyCapsule_GetName(capsule)])
    return managed


def delete(managed):
    """A consumer's last word."""
    managed.deleter(ctypes.addressof(managed))


class Exported:
    """Gives the capsule it was made of to whoever asks, so that a test can look at it afterwards."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0
