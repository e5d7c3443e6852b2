"""Whose pixels are "Pillow's"? From 13 on Pillow resizes in another order, and some bytes differ by one."""

import importlib.metadata


def installed_profile() -> str:
    """The profile that gives the bytes of the Pillow installed here: "pillow13" from 13 on, else "pillow".

    Imports nothing of Pillow; without it the answer is "pillow".
    """
    try:
        major = importlib.metadata.version("pillow").partition(".")[0]
    except importlib.metadata.PackageNotFoundError:
        return "pillow"
    return "pillow13" if major.isdecimal() and int(major) >= 13 else "pillow"
