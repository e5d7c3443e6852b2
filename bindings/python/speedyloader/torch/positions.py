"""A loader's position as a small dict for JSON, and back: epoch, batches taken, seed, and what the order came from.

The order of an epoch follows from the states that its random generators had at its begin. Pure functions but
for `restored`, which sets generators; SpecError names what does not fit.
"""

import base64
import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from ..errors import SpecError

numpy: Any = importlib.import_module("numpy")
torch: Any = importlib.import_module("torch")

VERSION = 1


def state_of(generator: Any) -> str | None:
    """A generator's state as text; generator None: that of torch's default one. None: it is not torch's."""
    if generator is None:
        generator = torch.default_generator
    if not isinstance(generator, torch.Generator):
        return None
    return base64.b64encode(generator.get_state().numpy().tobytes()).decode()


def begin(here: dict[str, Any]) -> dict[str, Any]:
    """The part of a position that says where in an epoch it is, for its begin."""
    return {"batches": 0} | ({"shards": [0] * here["workers"], "turn": 0} if "workers" in here else {})


@contextlib.contextmanager
def restored(generators: list[Any], states: list[str | None]) -> Iterator[None]:
    """Within, the generators go on from these states. Afterwards torch's default one, which is everybody's, is
    as if nothing had been drawn here."""
    before = torch.default_generator.get_state()
    for generator, state in zip(generators, states, strict=True):
        if state is not None:
            made = torch.from_numpy(numpy.frombuffer(base64.b64decode(state), numpy.uint8).copy())
            (torch.default_generator if generator is None else generator).set_state(made)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)


def check(state: Any, here: dict[str, Any], generators: int) -> None:
    """SpecError unless a state is one of such a loader. here: what must be equal."""
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise SpecError("this is not the state of a speedyloader.torch.DataLoader of this version", "SL_E_SPEC")
    for name, value in here.items():
        if state.get(name) != value:
            raise SpecError(f"the state is of a loader whose {name} is {state.get(name)!r}, here it is {value!r}",
                            "SL_E_SPEC")
    if "workers" in here:
        shards, turn = state.get("shards"), state.get("turn")
        numbers = isinstance(shards, list) and all(isinstance(one, int) and one >= 0 for one in shards)
        if not (numbers and shards and len(shards) == here["workers"] and turn in range(here["workers"])):
            raise SpecError(f"shards of the state are {shards!r}, and it is the turn of {turn!r}, allowed: the number "
                            "of batches of each guest worker, and one of these", "SL_E_SPEC")
    for name in ("epoch", "batches"):
        if not isinstance(state.get(name), int) or state[name] < 0:
            raise SpecError(f"{name} of the state is {state.get(name)!r}, allowed: numbers from 0 on", "SL_E_SPEC")
    states = state.get("generators")
    if not isinstance(states, list) or len(states) != generators:
        raise SpecError("the state is of a loader with another sampler", "SL_E_SPEC")
