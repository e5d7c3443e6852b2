"""The programs that README.md and the package's docstrings show do run, on photographs of ours."""

import inspect
import pathlib
import re
import textwrap

import pytest
import speedyloader as sl

pytest.importorskip("torch")

README = pathlib.Path(__file__).parents[2] / "README.md"


def indented(text):
    """The first indented block of a docstring, whole."""
    return textwrap.dedent(re.search(r"(?:^    .*\n|^\n)+", text, re.MULTILINE).group())


PROGRAMS = {
    "README.md": re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1),
    "speedyloader": indented(inspect.getdoc(sl)),
    "Loader": indented(inspect.getdoc(sl.Loader)),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_of_the_documentation_runs(shared_daemon, photos, monkeypatch, program):
    monkeypatch.setenv("SPEEDYLOADER_SOCKET", str(shared_daemon.socket))
    assert '"/data/train"' in program and "for batch in loader" in program
    program = re.sub(r"range\(\d+\)", "range(1)", program.replace('"/data/train"', repr(str(photos))))
    names = {"sl": sl}
    exec(program, names)
    assert names["images"].shape == (64, 3, 224, 224) and names["labels"].shape == (64,)
    with names["loader"] as loader:
        assert loader.stats()["batches"] >= len(loader) == 3
