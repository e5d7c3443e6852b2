"""Types and docstrings: the stub is the compiled module's true description, mypy takes a program that uses
the package rightly and finds what is wrong in another, and everything public is documented."""

import ast
import dataclasses
import importlib.resources
import inspect
import os
import re
import subprocess
import sys

import pytest
import speedyloader as sl
from speedyloader import _core
from support.daemon import PYTHON_PACKAGES

STUB = ast.parse(importlib.resources.files(sl).joinpath("_core.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
OF_EVERY_OBJECT = {"__module__", "__new__", "__init__", "__doc__", "__repr__"}
# What nanobind can say of a Python object; the stub knows more.
VAGUE = {"object", "dict"}
VAGUE_ARGUMENT = "object | None"


def test_the_package_says_that_it_has_types():
    assert importlib.resources.files(sl).joinpath("py.typed").is_file()


# ---- the stub ----


def functions(body):
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def is_property(node):
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def real_signature(function):
    """What nanobind says of a function, parsed."""
    ((text, _, defaults),) = function.__nb_signature__
    text = re.sub(r"\\(\d+)", lambda place: repr(defaults[int(place.group(1))]), text)
    text = text.replace("def (", "def getter(")
    return ast.parse(text.replace("speedyloader._core.", "") + ": ...").body[0]


def every(arguments):
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def assert_same_signature(stub, real):
    for ours, theirs in zip(every(stub.args), every(real.args), strict=True):
        if theirs.annotation is not None and ast.unparse(theirs.annotation) == VAGUE_ARGUMENT:
            theirs.annotation = ours.annotation
    assert ast.unparse(stub.args) == ast.unparse(real.args)
    if ast.unparse(real.returns) not in VAGUE:
        assert ast.unparse(stub.returns) == ast.unparse(real.returns)
    assert ast.unparse(stub.returns) != "None" or ast.unparse(real.returns) == "None"


def test_the_stub_has_the_names_of_the_module():
    public = {name for name in vars(_core) if not name.startswith("_")}
    assert public == CLASSES.keys() | functions(STUB.body).keys()
    for name, node in functions(STUB.body).items():
        assert_same_signature(node, real_signature(getattr(_core, name)))


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_stub_of_a_class_has_its_members_and_their_signatures(name):
    kind = getattr(_core, name)
    stub = functions(CLASSES[name].body)
    assert not {member.name for member in CLASSES[name].body} - stub.keys()
    # From Python 3.12 on a buffer has a method; before, type checkers only think so.
    assert vars(kind).keys() - OF_EVERY_OBJECT == stub.keys() - OF_EVERY_OBJECT - {"__buffer__"}
    for member, node in stub.items():
        real = vars(kind).get(member)
        if member == "__buffer__":
            continue
        assert is_property(node) == isinstance(real, property), member
        if isinstance(real, property):
            returns = ast.unparse(real_signature(real.fget).returns)
            assert ast.unparse(node.returns) == returns or returns in VAGUE | {"tuple", "list"}, member
            assert real.fset is None, member
        else:
            assert_same_signature(node, real_signature(real))


def test_the_stubs_types_are_those_of_real_values(shared_daemon, id_set):
    with sl.Loader(id_set(40), [sl.Resize((2, 2))], batch_size=8, socket=shared_daemon.socket) as loader:
        batch = next(iter(loader))
        stream = loader._stream
        for owner in (stream, batch._core, batch["image"]):
            for member, node in functions(CLASSES[type(owner).__name__].body).items():
                arguments = {"tensor": ["label"], "sample": [0], "next": [0, 1]}.get(member, [])
                if member in OF_EVERY_OBJECT | {"__buffer__", "close", "finish"}:
                    continue
                value = getattr(owner, member) if is_property(node) else getattr(owner, member)(*arguments)
                assert fits(value, ast.unparse(node.returns)), (member, value)


def fits(value, annotation):
    """Whether a value is of a type as the stub writes it; only what stubs here use."""
    if annotation == "Any":
        return True
    if " | " in annotation:
        return any(fits(value, choice) for choice in annotation.split(" | "))
    if annotation.startswith("Literal"):
        return value in ast.literal_eval(annotation.removeprefix("Literal"))
    outer, _, inner = annotation.removesuffix("]").partition("[")
    kinds = {"None": type(None), "int": int, "str": str, "bool": bool, "tuple": tuple, "dict": dict,
             "list": list} | vars(_core)
    if type(value) is not kinds[outer]:
        return False
    if outer == "tuple":
        words = inner.split(", ")
        return all(type(element) is kinds[words[0]] for element in value) and words[-1] in ("...", words[0])
    return outer != "dict" or all(type(key) is str for key in value)


# ---- mypy ----

RIGHT = '''
import json
import pathlib
import pickle
from typing import Any

import speedyloader as sl


def make(folder: pathlib.Path, rank: int | None = None) -> sl.Loader:
    return sl.Loader(
        sl.ImageFolder(folder, max_pixels=1 << 26),
        [sl.Decode(3), sl.RandomResizedCrop(224, scale=(0.1, 1.0)), sl.RandomHorizontalFlip(0.5),
         sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)],
        batch_size=64, last="pad", shuffle=True, seed=1, order="ready", rank=rank, world_size=rank and 2,
        errors="placeholder", max_failures=3, max_rate=0.1, dtype="bfloat16", layout="NHWC", explain=True,
        epochs=3, slots=4, copy=False, ring_full="error", timeout=2.5, socket=pathlib.Path("/run/socket"))


def mixed(folder: pathlib.Path) -> sl.Loader:
    parts = sl.Mix([sl.ImageFolder(folder, subset={"fraction": 0.5}), folder, "/data"], weights=(3, 1, 0.5),
                   max_pixels=1 << 20)
    return sl.Loader(parts, batch_size=8)


def train(folder: str) -> dict[str, Any]:
    with sl.Loader(folder, (sl.Resize((8, 9)), sl.CenterCrop(8))) as loader:
        total: int = len(loader)
        for number, batch in enumerate(loader):
            images, labels = batch.torch("image", "label")
            tensor: sl.Tensor = batch["image"]
            rows: int = tensor.shape[0] + batch.count + batch.epoch + batch.index + batch.step
            print(images, labels, rows, tensor.dtype.upper(), memoryview(tensor).nbytes, number, total)
            every: dict[str, sl.Tensor] = dict(batch)
            private: sl.Batch = batch.copy()
            print(every, private.copied, batch.numpy(), batch.jax("image"), batch.tf("image", copy=True))
            for sample in batch.samples():
                print(sample["lane"])
        loader.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        loader.reset(2)
        names: list[str] = loader.classes
        print(names, loader.info["samples"], loader.stats()["wait_s"], loader.report()["failures"])
        print(pickle.dumps(loader))
        return loader.spec


def careful(spec: dict[str, Any]) -> str:
    try:
        return next(iter(sl.Loader.from_spec(spec, timeout=1)))["image"].device
    except sl.SampleError as error:
        offset: int | None = error.offset
        return f"{error.sample_id + 1} {error.path.upper()} {error.kind} {offset} {error.code} {error.errno}"
    except (sl.WaitTimeout, sl.Error) as error:
        return str(error)
'''
WRONG = '''
import speedyloader as sl

loader = sl.Loader(3)
loader = sl.Loader("/data", [sl.Resize("big")])
loader = sl.Loader("/data", [224])
loader = sl.Loader("/data", batch_size="64")
loader = sl.Loader("/data", batchsize=64)
loader = sl.Loader("/data", timeout="soon")
loader.load_state_dict("state")
loader.stats().no_such_method()
loader.classes.append(3)
length: str = len(loader)
for batch in loader:
    batch[0]
    batch["image"].shape = ()
    batch.count.upper()
    batch.image
'''


def test_mypy_strict_takes_the_package_and_what_is_right_and_finds_each_wrong_line(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache",
               PYTHON_PACKAGES / "speedyloader", "right.py", "wrong.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300,
                             env=os.environ | {"MYPYPATH": str(PYTHON_PACKAGES)})
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert all(line.startswith("wrong.py:") for line in errors), checked.stdout + checked.stderr
    found = {int(line.split(":")[1]) for line in errors}
    lines = WRONG.splitlines()
    wrong = set(range(4, len(lines) + 1)) - {lines.index("for batch in loader:") + 1}
    assert found == wrong, checked.stdout


# ---- documentation ----


def public_members():
    """(name, object) of everything that a user sees: the package, its names, and their members."""
    yield "speedyloader", sl
    for name in sl.__all__:
        value = getattr(sl, name)
        if not inspect.isclass(value):
            continue
        yield name, value
        fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        hidden = {field.name for field in fields}
        for member, found in inspect.getmembers(value):
            own = member in vars(value) and not member.startswith("_") and member not in hidden
            if own and (callable(found) or isinstance(found, property)):
                yield f"{name}.{member}", found


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in public_members()])
def test_what_is_public_has_a_docstring(value):
    text = inspect.getdoc(value)
    words = re.sub(r"\A\w+\(.*\) -> .*", "", text or "")  # nanobind begins with the signature
    assert words.strip().endswith((".", "'")), text


def test_all_names_exactly_what_the_package_offers():
    offered = {name for name, value in vars(sl).items() if name[0] != "_" and not inspect.ismodule(value)}
    assert offered == set(sl.__all__)


def test_every_argument_of_a_loader_is_explained():
    text = inspect.getdoc(sl.Loader)
    for name in inspect.signature(sl.Loader).parameters:
        assert re.search(rf"\b{name}\b", text), name
