"""A hostile client of every kind at once, for a few seconds. How long one must last, and at which rate the good client is
served, is for hostile_soak.py by itself: a rate is no test."""

from errors.hostile_soak import soak
from support.capi import BUILD

SECONDS = 12


def test_beside_a_hostile_client_every_batch_is_right_and_no_sanitizer_has_anything_to_say():
    with_sanitizers = BUILD.parent / "asan"
    has_them = (with_sanitizers / "bin" / "speedyloaderd").exists()
    result = soak(with_sanitizers if has_them else BUILD, SECONDS)
    assert result["wrong"] == 0
    assert result["low"] > 0  # in no window was the good client without batches
