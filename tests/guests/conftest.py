"""Fixture of the tests with guest workers."""

import pytest
from item_guests import Guests


@pytest.fixture
def crews(daemons):
    """Makes crews: crews(daemon, workers=2)."""
    made = []

    def make(daemon, workers=2):
        made.append(Guests(daemons, daemon, workers))
        return made[-1]

    yield make
    for guests in made:
        guests.close()
