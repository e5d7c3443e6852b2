"""Why a test of torch's suite that fails under our loader says nothing against it, for bench/peer_suite.py.

Each entry: the test's method, what the failure's text must match, and the reason. Another failure of the same
test counts as one, so that a reason cannot hide what it is not about. Pure data and one pure function.
"""

import re

_BARRIER = ("its items wait until every worker makes one at the same moment; here a guest makes the first item alone, "
            "to see what items are like")
_TURNS = ("it expects batch i from worker i modulo workers; guests take items as the scheduler gives them, and only "
          "the order of batches is fixed")

REASONS = [
    ("test_invalid_ctor_args_combinations", r"ValueError not raised",
     "multiprocessing_context with num_workers=0 is no mistake here: there are guests then too, as many as cores; "
     "the words of the other refusals are tested in tests/python/test_guest_arguments.py"),
    ("test_partial_workers", r"has no attribute '_workers'",
     "it looks into torch's iterator; that guests end with their loader is tested in tests/python/test_guest_ends.py"),
    ("test_iterable_style_dataset", r"has no attribute '_workers'",
     "it looks into torch's iterator; iterable data sets are tested in tests/python/test_guest_iterable.py"),
    ("test_worker_seed", r"did not end within", _BARRIER),
    ("test_worker_seed_reproducibility", r"did not end within", _BARRIER),
    ("test_get_worker_info", r"did not end within|True is not false", _BARRIER),
    ("test_get_worker_info", r"Scalars are not equal",
     "it expects a RuntimeError of torch's WorkerInfo, which in torch 2.15 is another class that raises another error"),
    ("test_dataloader_with_namedtuple", r"Can't pickle <class '\w+\.Batch'>",
     "its items are of a named tuple that pickle cannot find by name, which torch's loader takes without workers only"),
    ("test_ind_worker_queue", r"Lists differ|not equal", _TURNS),
    ("test_in_order_index_ds", r"Lists differ|not equal", _TURNS),
    ("test_out_of_order_index_ds", r"Lists differ|not equal", _TURNS),
    ("test_out_of_order_iterable_ds", r"Lists differ|not equal",
     "in_order=False allows another order and is no help here: shards of an iterable data set take turns all the same"),
]


def why_not(name, text):
    """The reason for a failure of the test Class.method with this text, or None."""
    method = name.partition(".")[2]
    for about, pattern, reason in REASONS:
        if about == method and re.search(pattern, text):
            return reason
    return None
