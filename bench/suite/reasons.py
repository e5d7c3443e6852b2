"""Why a test of torch's suite that fails under our loader says nothing against it, for bench/peer_suite.py.

Each entry: the test's method, what the failure's text must match, and the reason. Another failure of the same
test counts as one, so that a reason cannot hide what it is not about. Pure data and one pure function.
"""

import re

REASONS = []


def why_not(name, text):
    """The reason for a failure of the test Class.method with this text, or None."""
    method = name.partition(".")[2]
    for about, pattern, reason in REASONS:
        if about == method and re.search(pattern, text):
            return reason
    return None
