"""Fixtures of the pixel tests: one pixel_tool process for all of them."""

import pytest

from pixel_client import PixelTool


@pytest.fixture(scope="session")
def pixels():
    tool = PixelTool()
    yield tool
    tool.close()
