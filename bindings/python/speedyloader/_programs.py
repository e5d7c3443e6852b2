"""The wheel's commands `speedyctl` and `speedyloaderd`: each becomes the program of that name in the package.

The programs stay where the library looks for its daemon, in bin beside the module's lib, and are not copied
to the environment's own bin. Where they are missing, as in a build tree, that is said in one line, status 1.
"""

import importlib.util
import os
import pathlib
import sys
from typing import NoReturn


def _become(name: str) -> NoReturn:
    module = importlib.util.find_spec("speedyloader._core")
    if module is None or module.origin is None:
        sys.exit(f"{name}: speedyloader is installed without its compiled module")
    program = pathlib.Path(module.origin).parent / "bin" / name
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot run {program}: {error.strerror}")


def speedyctl() -> NoReturn:
    _become("speedyctl")


def speedyloaderd() -> NoReturn:
    _become("speedyloaderd")
