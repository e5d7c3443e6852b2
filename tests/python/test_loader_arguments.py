"""What goes into `sl.Loader`: every argument arrives in the spec, and a wrong one is refused by its name."""

import copy
import inspect
import json
import os
import pathlib

import numpy
import pytest
import speedyloader as sl
from loaders import COUNT, TINY, content, ids
from speedyloader.pillow import installed_profile

NAN = float("nan")

# ---- arguments ----

# (argument, its value, where the spec has it, the value there if it is another)
ARRIVES = [
    ("batch_size", 5, "batch.size"), ("last", "keep", "batch.last"), ("shuffle", False, "order.shuffle"),
    ("seed", 2**64 - 1, "order.seed"), ("order", "ready", "order.policy"), ("rank", 0, "shard.rank"),
    ("world_size", 1, "shard.world_size"), ("uneven", "wrap", "shard.uneven"),
    ("errors", "fail", "errors.policy"), ("max_failures", 7, "errors.max_failures"),
    ("max_rate", 0.25, "errors.max_rate"),
    ("dtype", "float16", "output.dtype"), ("layout", "NHWC", "output.layout"), ("profile", "fast", "profile"),
    ("explain", True, "explain"), ("share", "private", "share"), ("epochs", 3, "epochs"),
]
# (argument, what the daemon refuses, the key that the refusal names)
REFUSED = [
    ("batch_size", 0, "batch.size"), ("batch_size", 2.5, "batch.size"), ("batch_size", "8", "batch.size"),
    ("last", "maybe", "batch.last"), ("shuffle", "yes", "order.shuffle"), ("seed", -1, "order.seed"),
    ("order", "soon", "order.policy"), ("uneven", "even", "shard.uneven"),
    ("errors", "ignore", "errors.policy"), ("max_failures", -1, "errors.max_failures"),
    ("max_rate", 2, "errors.max_rate"),
    ("dtype", "float64", "output.dtype"), ("layout", "HWC", "output.layout"), ("profile", "exact", "profile"),
    ("explain", 1, "explain"), ("share", "all", "share"), ("epochs", 0, "epochs"), ("slots", 257, "slots"),
    ("ring_full", "wait", "ring_full"), ("rank", 1, "shard.rank"), ("world_size", 0, "shard.world_size"),
]
NOT_OF_THE_SPEC = {"self", "dataset", "transforms", "slots", "copy", "ring_full", "timeout", "socket", "reconnect"}
IN_PAIRS = {"rank": {"world_size": 1}, "world_size": {"rank": 0}}


def at(document, place):
    for key in place.split("."):
        document = document[key]
    return document


@pytest.mark.parametrize("argument, value, place", ARRIVES, ids=[row[0] for row in ARRIVES])
def test_every_argument_is_in_the_spec(make, argument, value, place):
    loader = make(**{argument: value, **IN_PAIRS.get(argument, {})})
    assert at(loader.spec, place) == value


@pytest.mark.parametrize("argument, value, key", REFUSED, ids=[f"{row[0]}={row[1]}" for row in REFUSED])
def test_every_argument_reaches_the_daemon_which_names_the_key_of_a_wrong_value(make, argument, value, key):
    with pytest.raises(sl.SpecError) as refused:
        make(**{argument: value, **IN_PAIRS.get(argument, {})})
    assert key in str(refused.value) and str(value) in str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_no_argument_is_missing_in_these_tests():
    arguments = inspect.signature(sl.Loader.__init__).parameters.keys() - NOT_OF_THE_SPEC
    assert arguments == {row[0] for row in ARRIVES}
    assert arguments <= {row[0] for row in REFUSED}


def test_the_defaults_are_those_of_the_documented_spec(shared_daemon, folder):
    with sl.Loader(folder, [sl.RandomResizedCrop(2)], batch_size=8, socket=shared_daemon.socket) as loader:
        spec = loader.spec
    assert spec == {
        "dataset": {"kind": "image_folder", "path": str(folder)},
        "pipeline": [{"op": "decode", "channels": 3},
                     {"op": "random_resized_crop", "size": [2, 2], "scale": [0.08, 1.0],
                      "ratio": [3 / 4, 4 / 3]}],
        "output": {"dtype": "float32", "layout": "NCHW"}, "batch": {"size": 8, "last": "drop"},
        "order": {"shuffle": True, "seed": 0, "policy": "strict"},
        "shard": {"rank": 0, "world_size": 1, "uneven": "pad"}, "errors": {"policy": "refill"},
        "epochs": spec["epochs"], "profile": installed_profile(), "share": "auto", "explain": False}
    assert spec["epochs"] >= 1_000_000


TRANSFORMS = [
    (sl.Decode(1), {"op": "decode", "channels": 1}),
    (sl.RandomResizedCrop(3, (0.5, 1), (1, 2)),
     {"op": "random_resized_crop", "size": [3, 3], "scale": [0.5, 1], "ratio": [1, 2]}),
    (sl.RandomResizedCrop((3, 4)),
     {"op": "random_resized_crop", "size": [3, 4], "scale": [0.08, 1.0], "ratio": [3 / 4, 4 / 3]}),
    (sl.Resize(5), {"op": "resize", "size": 5}),
    (sl.Resize((5, 6)), {"op": "resize", "size": [5, 6]}),
    (sl.CenterCrop(4), {"op": "center_crop", "size": [4, 4]}),
    (sl.CenterCrop((4, 5)), {"op": "center_crop", "size": [4, 5]}),
    (sl.RandomHorizontalFlip(0.25), {"op": "random_horizontal_flip", "p": 0.25}),
    (sl.Normalize((0, 0, 0), (1, 1, 2)), {"op": "normalize", "mean": [0, 0, 0], "std": [1, 1, 2]}),
]


@pytest.mark.parametrize("transform, op", TRANSFORMS, ids=[str(transform) for transform, _ in TRANSFORMS])
def test_a_transform_is_its_op_and_the_daemon_takes_it(make, transform, op):
    is_last = op["op"] in ("normalize", "center_crop")
    transforms = [*TINY, transform] if is_last else [transform, sl.CenterCrop(2)]
    loader = make(transforms=transforms, dtype="float32")
    assert op in loader.spec["pipeline"]
    assert next(iter(loader)).count == 8


def test_decode_is_added_if_it_is_left_out(make):
    assert [step["op"] for step in make(transforms=TINY).spec["pipeline"]] == ["decode", "resize"]
    assert make(transforms=[sl.Decode(3), *TINY]).spec == make(transforms=iter(TINY)).spec


@pytest.mark.parametrize("transform, key", [
    (sl.Decode(2), "channels"), (sl.RandomResizedCrop(0), "size"),
    (sl.RandomResizedCrop(2, scale=(0.5, 0.1)), "scale"), (sl.RandomResizedCrop(2, ratio=(0, 1)), "ratio"),
    (sl.Resize(70_000), "size"), (sl.CenterCrop((2, 0)), "size"),
    (sl.RandomHorizontalFlip(1.5), "p"), (sl.Normalize((0.5,), (0.5,)), "mean"),
    (sl.Normalize((0, 0, 0), (1, 0, 1)), "std")], ids=str)
def test_a_wrong_transform_is_named_with_its_place_in_the_pipeline(make, transform, key):
    place = 0 if isinstance(transform, sl.Decode) else 1
    with pytest.raises(sl.SpecError, match=rf"pipeline\[{place}\]\.{key}"):
        make(transforms=[transform, *TINY], dtype="float32")


def test_an_unknown_argument_is_a_TypeError_and_an_unknown_key_of_a_spec_is_named(make, shared_daemon):
    with pytest.raises(TypeError, match="batchsize"):
        make(batchsize=3)
    spec = make().spec
    for section in (None, "dataset", "output", "batch", "order", "shard", "errors"):
        changed = copy.deepcopy(spec)
        (changed if section is None else changed[section])["colour"] = 1
        with pytest.raises(sl.SpecError, match=r"^(.+\.)?colour is not a known key"):
            sl.Loader.from_spec(changed, socket=shared_daemon.socket)


def test_from_spec_makes_the_same_loader_of_its_spec(make, shared_daemon):
    loader = make(seed=6, last="keep", explain=True, layout="NHWC", errors="placeholder", max_failures=3,
                  epochs=1)
    spec = loader.spec
    with sl.Loader.from_spec(json.loads(json.dumps(spec)), socket=shared_daemon.socket) as other:
        assert other.spec == spec
        assert content(other) == content(loader)


def test_the_spec_is_a_copy(make):
    loader = make()
    before = loader.spec
    loader.spec["batch"]["size"] = 3
    loader.spec.clear()
    assert loader.spec == before


def test_what_arrived_shows_in_the_batches(make):
    (first, *_, last) = make(batch_size=12, last="keep", shuffle=False, layout="NHWC", explain=True, epochs=1)
    assert first["image"].shape == (12, 2, 2, 3) and first["image"].dtype == "uint8"
    assert (first.count, last.count) == (12, 4)
    assert ids(first) == list(range(12))
    assert first.keys() == ("image", "label", "sample_id", "valid", "crop_box", "flip")
    (*_, last) = make(batch_size=12, last="pad", dtype="bfloat16", epochs=1)
    assert last["image"].shape == (12, 3, 2, 2) and last["image"].dtype == "bfloat16"
    assert last.numpy("valid").tolist() == [1] * 4 + [0] * 8
    assert len(make(batch_size=12)) == 3


@pytest.mark.parametrize("argument, value", [
    ("slots", -1), ("slots", 1.5), ("timeout", -1), ("timeout", NAN), ("dataset", 3), ("dataset", None)])
def test_a_wrong_value_that_never_reaches_the_daemon_is_a_SpecError_too(make, argument, value):
    with pytest.raises(sl.SpecError, match=f"{argument} is {value}"):
        make(**{argument: value})


@pytest.mark.parametrize("argument, value, said", [
    ("batch_size", NAN, "batch.size is nan"), ("seed", float("inf"), "order.seed is inf"),
    ("max_rate", numpy.float64("-inf"), "errors.max_rate is -inf"),
    ("transforms", [sl.RandomHorizontalFlip(NAN)], r"pipeline\[1\].p is nan"),
    ("transforms", [sl.Resize((2, {2}))], r"pipeline\[1\].size\[1\] is \{2\}"),
    ("dataset", sl.ImageFolder("/data", max_pixels=NAN), "dataset.max_pixels is nan")], ids=str)
def test_what_JSON_cannot_carry_is_a_SpecError_that_names_the_key(make, argument, value, said):
    with pytest.raises(sl.SpecError, match=f"^{said}, allowed: "):
        make(**{argument: value})


def test_a_path_that_is_not_utf8_is_a_SpecError_that_says_so(make, open_folder):
    folder = open_folder / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    with pytest.raises(sl.SpecError, match=r"^dataset.path .*caf.udce9' is not UTF-8") as refused:
        make(folder)
    assert str(refused.value).isascii()


@pytest.mark.parametrize("transforms", [
    lambda integer: [sl.RandomResizedCrop(integer(2))],
    lambda integer: [sl.RandomResizedCrop((integer(2), integer(3)))],
    lambda integer: [sl.Resize(integer(4)), sl.CenterCrop(integer(2))],
    lambda integer: [sl.Resize((integer(4), integer(5))), sl.CenterCrop((integer(2), integer(3)))],
], ids=["crop", "crop of two sides", "shorter side", "two sides"])
def test_integers_of_numpy_are_integers(make, transforms):
    def loader(integer):
        return make(transforms=transforms(integer), batch_size=integer(5), seed=integer(7), rank=integer(0),
                    world_size=integer(1), max_failures=integer(3), epochs=integer(1))

    plain = loader(int)
    expected = content(plain)
    for integer in (numpy.int64, numpy.uint8):
        same = loader(integer)
        assert same.spec == plain.spec
        assert content(same) == expected


# ---- data sets ----


class Somewhere:
    """A path of somebody else's class."""

    def __init__(self, path):
        self._path = str(path)

    def __fspath__(self):
        return self._path


@pytest.mark.parametrize("as_path", [str, pathlib.Path, Somewhere])
@pytest.mark.parametrize("wrap", [lambda path: path, sl.ImageFolder], ids=["path", "ImageFolder"])
def test_a_data_set_is_an_ImageFolder_or_any_path(make, folder, as_path, wrap):
    loader = make(wrap(as_path(folder)))
    assert loader.spec["dataset"] == {"kind": "image_folder", "path": str(folder)}
    assert loader.info["samples"] == COUNT


def test_a_relative_path_is_meant_from_the_current_folder_and_a_tilde_is_home(make, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    for path in (folder.name, f"./{folder.name}/", f"~/{folder.name}", pathlib.Path(folder.name)):
        assert make(path).spec["dataset"]["path"] == str(folder)
    monkeypatch.chdir("/")
    assert make(f"~/{folder.name}").info["samples"] == COUNT


def test_max_pixels_reaches_the_daemon(make, folder):
    loader = make(sl.ImageFolder(folder, max_pixels=3), [sl.Resize((1, 1))], errors="placeholder", epochs=1)
    assert not any(batch.numpy("valid").any() for batch in loader)
    assert {failure["kind"] for failure in loader.report()["failures"]} == {"pixel_budget"}
    with pytest.raises(sl.SpecError, match="dataset.max_pixels"):
        make(sl.ImageFolder(folder, max_pixels=0))


def test_numbers_of_numpy_and_torch_are_numbers(make):
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    mean, std = numpy.float32([0.5, 0.25, 0.125]), torch.tensor([0.5, 1.0, 2.0])
    loader = make(transforms=[sl.Resize((2, 2)), sl.Normalize(mean, std)], dtype="float32", shuffle=numpy.True_)
    assert loader.spec["pipeline"][-1] == {"op": "normalize", "mean": mean.tolist(), "std": std.tolist()}
    assert loader.spec["order"]["shuffle"] is True


def test_a_transform_of_somebody_else_is_a_SpecError_that_says_where(make):
    with pytest.raises(sl.SpecError, match=r"transforms\[1\] is .*object.*, allowed: this package's transforms"):
        make(transforms=[sl.Resize((2, 2)), object()])
