"""The packages that tests/packages/build.sh has left, for every test here."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
PACKAGES = HERE.parents[1] / "build" / "package" / "packages"
sys.path.insert(0, str(HERE))

from machine import NAMES  # noqa: E402


@pytest.fixture(scope="session")
def packages():
    """{name: file}"""
    found = {file.name.split("_")[0]: file for file in PACKAGES.glob("*.deb")}
    if not found:
        pytest.skip(f"no packages in {PACKAGES}; tests/packages/build.sh builds them")
    assert sorted(found) == sorted(NAMES)
    return found
