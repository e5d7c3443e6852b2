"""NumPy, PyTorch, JAX and TensorFlow attach the same batch at once, without a copy where none is promised."""

import gc

import pytest
import speedyloader as sl
from holding import FRAMEWORKS, Exported, address, capsule_name, content, open_ids, raw
from support.capi import Client
from support.daemon import wait_for

DTYPES = ("float32", "float16", "bfloat16", "uint8")
SIZES = ((3, 7), (1, 1), (7, 15), (17, 241))  # as grey pictures 21, 1, 105 and 4097 bytes
NARROWED = {"int64": "int32", "uint64": "uint32"}  # what JAX without jax_enable_x64 makes of them
NORMALIZE = sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)


def open_photos(folder, daemon, dtype="float32", size=(3, 7), channels=3, **options):
    transforms = [sl.Decode(channels), sl.RandomResizedCrop(size), sl.RandomHorizontalFlip()]
    if dtype != "uint8":
        transforms.append(NORMALIZE)
    options = {"batch_size": 7, "last": "keep", "explain": True, "slots": 4, "timeout": 60, **options}
    return sl.Loader(folder, transforms, dtype=dtype, socket=str(daemon.socket), **options)


def attach_all(batch, name):
    """{framework: its array of the tensor}, all alive at once."""
    return {framework: getattr(batch, framework)(name) for framework in FRAMEWORKS}


def expected_of(framework, tensor):
    """(dtype, whether it is the batch's own memory) of a framework's array."""
    narrowed = framework == "jax" and tensor.dtype in NARROWED
    return (NARROWED[tensor.dtype] if narrowed else tensor.dtype), not narrowed


def check(batch):
    """Every tensor in every framework: pointers, types, shapes, bits."""
    for name, tensor in batch.items():
        assert tensor.data_ptr % 256 == 0, f"{name} of batch {batch.index}"
        arrays = attach_all(batch, name)
        for framework, array in arrays.items():
            where = f"{name} of batch {batch.index} in {framework}"
            dtype, zero_copy = expected_of(framework, tensor)
            assert (address(framework, array) == tensor.data_ptr) is zero_copy, where
            if zero_copy:
                assert content(framework, array) == raw(tensor), where
            else:
                assert content(framework, array) == content("numpy", arrays["numpy"].astype(dtype)), where


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_four_frameworks_attach_every_batch_at_once_in_the_rings_own_memory(shared_daemon, few_photos,
                                                                               dtype, layout):
    with open_photos(few_photos, shared_daemon, dtype, layout=layout) as loader:
        batches = 0
        for batch in loader:
            assert not batch.copied
            assert batch["image"].dtype == dtype
            assert batch["image"].shape == (batch.count, *((3, 3, 7) if layout == "NCHW" else (3, 7, 3)))
            check(batch)
            batches += 1
        assert (batches, batch.count) == (6, 5)  # 40 photographs in sevens


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_framework_sees_the_bytes_that_a_program_in_C_sees(shared_daemon, few_photos, dtype):
    with open_photos(few_photos, shared_daemon, dtype) as loader, Client(shared_daemon.socket) as client:
        stream = client.open(loader.spec)
        for batch in loader:
            _, peer = stream.next()
            for name, tensor in batch.items():
                _, shape, data = peer.raw(name)
                assert raw(tensor)[1:] == (shape, data)
                for framework in ("numpy", "torch", "tf"):
                    assert content(framework, getattr(batch, framework)(name))[1:] == (shape, data)
            peer.release()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("channels, last", [(1, "keep"), (3, "pad")], ids=["grey-keep", "RGB-pad"])
def test_LDR_17_odd_sizes_lie_on_a_border_that_every_framework_takes_batch_after_batch(
        shared_daemon, few_photos, size, channels, last):
    with open_photos(few_photos, shared_daemon, "uint8", size, channels, last=last) as loader:
        for _ in range(2):
            for batch in loader:
                check(batch)


def test_LDR_17_kept_batches_lie_on_the_border_too_copies_among_them(shared_daemon, few_photos):
    with open_photos(few_photos, shared_daemon, "uint8") as loader:
        kept = list(loader)
        assert [batch.copied for batch in kept] == [False] * 3 + [True] * 3
        for batch in kept:
            check(batch)


def test_jax_narrows_64_bits_by_copying_unless_x64_is_enabled(shared_daemon, few_photos):
    import jax

    with open_photos(few_photos, shared_daemon) as loader:
        batch = next(iter(loader))
        narrow = batch.jax()
        assert {name: array.dtype.name for name, array in narrow.items()} == {
            "image": "float32", "label": "int32", "sample_id": "uint32", "valid": "uint8",
            "crop_box": "int32", "flip": "uint8"}
        with jax.enable_x64(True):
            for name, tensor in batch.items():
                array = jax.dlpack.from_dlpack(tensor)
                assert content("jax", array) == raw(tensor)
                assert address("jax", array) == tensor.data_ptr


def test_a_tensor_goes_straight_into_each_framework(shared_daemon, few_photos):
    import jax
    import numpy
    import tensorflow
    import torch

    with open_photos(few_photos, shared_daemon) as loader:
        image = next(iter(loader))["image"]
        straight = {"torch": torch.from_dlpack(image), "jax": jax.dlpack.from_dlpack(image),
                    "numpy": numpy.from_dlpack(image),
                    "tf": tensorflow.experimental.dlpack.from_dlpack(image.__dlpack__())}
        del image
        assert len({address(framework, array) for framework, array in straight.items()}) == 1
        assert len({content(framework, array) for framework, array in straight.items()}) == 1
        assert numpy.shares_memory(numpy.asarray(straight["torch"]), straight["numpy"])


def test_a_batch_converts_to_a_dict_a_tuple_or_one_array(shared_daemon, few_photos):
    with open_photos(few_photos, shared_daemon) as loader:
        batch = next(iter(loader))
        for framework in FRAMEWORKS:
            convert = getattr(batch, framework)
            assert list(convert()) == ["image", "label", "sample_id", "valid", "crop_box", "flip"]
            label, image = convert("label", "image")
            assert (tuple(label.shape), tuple(image.shape)) == ((7,), (7, 3, 3, 7))
            assert tuple(convert("label").shape) == (7,)
            with pytest.raises(KeyError, match="no tensor 'mask'; there are: image label"):
                convert("mask")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_copy_gives_a_framework_memory_of_its_own(shared_daemon, few_photos, framework, dtype):
    with open_photos(few_photos, shared_daemon, dtype) as loader:
        batch = next(iter(loader))
        tensor = batch["image"]
        before = raw(tensor)
        copy = getattr(batch, framework)("image", copy=True)
        assert content(framework, copy) == before
        assert address(framework, copy) != tensor.data_ptr
        assert address(framework, copy) % 256 == 0
        if framework in ("numpy", "torch"):
            copy += 1
            assert content(framework, copy) != before
        assert raw(tensor) == before
        del batch, tensor
        assert loader.stats()["held"] == 0
        assert content(framework, copy)[1] == (7, 3, 3, 7)


def test_numpy_and_jax_refuse_to_write_into_the_ring(shared_daemon, few_photos):
    import numpy

    with open_photos(few_photos, shared_daemon) as loader:
        batch = next(iter(loader))
        before = raw(batch["image"])
        for view in (batch.numpy("image"), numpy.from_dlpack(batch["image"]), numpy.asarray(batch["image"])):
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 0
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.flags.writeable = True
        changed = batch.jax("image").at[0].set(9)
        assert changed.unsafe_buffer_pointer() != batch["image"].data_ptr
        with pytest.raises(TypeError, match="immutable"):
            batch.jax("image")[0] = 0
        assert raw(batch["image"]) == before


@pytest.mark.parametrize("framework", ["torch", "jax", "tf"])
def test_a_consumed_capsule_is_renamed_and_the_array_holds_the_lease(shared_daemon, id_set, framework):
    """Through the capsule that the framework was really given."""
    import jax
    import tensorflow
    import torch

    take = {"torch": torch.from_dlpack, "jax": lambda object_: jax.dlpack.from_dlpack(object_),
            "tf": lambda object_: tensorflow.experimental.dlpack.from_dlpack(object_.capsule)}[framework]
    with open_ids(id_set(40), shared_daemon.socket) as loader:
        given = Exported(next(iter(loader))["image"].capsule())
        array = take(given)
        assert capsule_name(given.capsule) == "used_dltensor"
        del given
        assert loader.stats()["held"] == 1
        del array
        gc.collect()
        wait_for(lambda: loader.stats()["held"] == 0)


def test_computing_with_a_batch_gives_what_it_gives_with_a_copy(shared_daemon, few_photos):
    """Kernels that like their alignment (vector loads, convolutions) run on the ring itself."""
    import jax
    import tensorflow
    import torch

    with open_photos(few_photos, shared_daemon, size=(7, 15), layout="NHWC") as loader:
        for batch in loader:
            shared, own = (batch.torch("image", copy=copy).permute(0, 3, 1, 2) for copy in (False, True))
            weight = torch.ones(2, 3, 3, 3)
            assert torch.equal(*(torch.nn.functional.conv2d(x, weight) for x in (shared, own)))
            kernel = tensorflow.ones((3, 3, 3, 2))
            got, want = (tensorflow.nn.conv2d(batch.tf("image", copy=copy), kernel, 1, "SAME").numpy()
                         for copy in (False, True))
            assert (got == want).all()
            function = jax.jit(lambda x: (x * 2 + 1).sum(axis=0))
            assert (function(batch.jax("image")) == function(batch.jax("image", copy=True))).all()
