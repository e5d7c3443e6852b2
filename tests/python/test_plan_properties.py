"""Whatever the number of samples, ranks and rows, and whichever files are damaged: every sample is delivered
once or named, and all ranks take the same number of steps (LDR-01, LDR-02). The cases are Hypothesis's; the
folders, the daemon and the damage are real."""

import pathlib
import tempfile
from collections import Counter

import pytest
import speedyloader as sl
import test_card
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as some

MOST = 18  # samples of a folder
WAIT_S = 60

# Always the same cases, so that a run tells about the change and not about the day.
SETTINGS = settings(max_examples=100, deadline=None, derandomize=True, database=None,
                    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@some.composite
def cases(draw):
    count = draw(some.integers(1, MOST))
    return {"count": count, "classes": draw(some.integers(1, min(count, 3))),
            "bad": draw(some.sets(some.integers(0, count - 1), max_size=count)),
            "world": draw(some.integers(1, 4)),
            "options": {"batch_size": draw(some.integers(1, 5)), "seed": draw(some.integers(0, 9)),
                        "shuffle": draw(some.booleans()),
                        "last": draw(some.sampled_from(["drop", "keep", "pad"])),
                        "uneven": draw(some.sampled_from(["pad", "drop", "wrap"]))}}


@pytest.fixture(scope="module")
def pictures(id_set):
    """(bytes by id, of each the first part only)."""
    whole = [path.read_bytes() for path in sorted(id_set(MOST).rglob("*.png"))]
    return whole, [data[:int(len(data) * 0.7)] for data in whole]


def write_folder(folder, pictures, case):
    whole, cut = pictures
    for sample_id in range(case["count"]):
        place = pathlib.Path(folder, f"class_{sample_id * case['classes'] // case['count']}")
        place.mkdir(exist_ok=True)
        data = (cut if sample_id in case["bad"] else whole)[sample_id]
        (place / f"sample_{sample_id:03d}.png").write_bytes(data)


def open_rank(daemon, folder, case, rank, errors):
    return sl.Loader(folder, [sl.Resize((2, 2))], dtype="uint8", layout="NHWC", errors=errors, epochs=1,
                     max_failures=10_000, max_rate=1.0, rank=rank, world_size=case["world"],
                     socket=str(daemon.socket), timeout=WAIT_S, **case["options"])


def rows_of(batch):
    """[(sample id, planned id, valid)], after a look at what the valid rows show."""
    rows = [(row["sample_id"], row["planned_id"], row["valid"]) for row in batch.samples()]
    for pixels, (sample_id, _, valid) in zip(batch.numpy("image"), rows):
        if valid:
            assert test_card.id_of(pixels[0, 0]) == sample_id
    return rows


def run_rank(daemon, folder, case, rank, errors):
    """([rows of each batch], report); None where the daemon says that there is no batch."""
    try:
        loader = open_rank(daemon, folder, case, rank, errors)
    except sl.SpecError as refused:
        assert "sample" in str(refused)
        return None
    with loader:
        batches = [rows_of(batch) for batch in loader]
        assert len(batches) == len(loader)
        return batches, loader.report()


def run_all(daemon, folder, case, errors):
    """What run_rank gives for every rank, or None; the ranks agree."""
    ranks = [run_rank(daemon, folder, case, rank, errors) for rank in range(case["world"])]
    if None in ranks:
        assert ranks == [None] * case["world"]
        event("no batch")
        return None
    assert len({tuple(len(rows) for rows in batches) for batches, _ in ranks}) == 1  # equal steps, equal rows
    return ranks


def assert_accounts_add_up(ranks, case):
    accounts = [report["epochs"][0] for _, report in ranks]
    for account in accounts:
        assert account["complete"] is True
        assert account["missing"] == account["repeated"] == 0
        assert account["delivered"] + account["failed"] == account["planned"]
    dropped = {account["dropped"] for account in accounts}
    assert len(dropped) == 1
    assert sum(account["planned"] for account in accounts) + min(dropped) == case["count"]
    return min(dropped)


def assert_each_id_is_delivered_once_or_named(ranks, case):
    dropped = assert_accounts_add_up(ranks, case)
    rows = [row for batches, _ in ranks for batch in batches for row in batch]
    own = Counter(sample_id for sample_id, planned_id, valid in rows if valid and sample_id == planned_id)
    named = {failure["sample_id"] for _, report in ranks for failure in report["failures"]}
    every = set(range(case["count"]))
    assert named <= case["bad"] and not set(own) & case["bad"]
    assert len(every - set(own) - named) <= dropped
    extra = sum(own.values()) - len(own)
    assert extra < case["world"] if case["options"]["uneven"] == "wrap" else extra == 0
    if dropped == 0:
        assert set(own) == every - case["bad"]
        assert named == case["bad"]
    for failure in (failure for _, report in ranks for failure in report["failures"]):
        assert failure["kind"] == "truncated" and f"sample_{failure['sample_id']:03d}.png" in failure["path"]


@pytest.mark.parametrize("errors", ["refill", "placeholder"])
@SETTINGS
@given(case=cases())
def test_LDR_02_every_sample_is_delivered_once_or_named_and_ranks_keep_step(shared_daemon, pictures, errors,
                                                                            case):
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, pictures, case)
        ranks = run_all(shared_daemon, folder, case, errors)
        if ranks is None:
            return
        event(f"{case['world']} ranks, {'damage' if case['bad'] else 'no damage'}")
        assert_each_id_is_delivered_once_or_named(ranks, case)
        for batches, _ in ranks:
            for batch in batches:
                for sample_id, planned_id, valid in batch:
                    if errors == "placeholder":
                        assert sample_id == planned_id and not (valid and sample_id in case["bad"])
                    elif valid:
                        assert sample_id == planned_id or planned_id in case["bad"]


@settings(SETTINGS, max_examples=50)
@given(case=cases())
def test_under_fail_a_rank_stops_at_its_first_damaged_sample_and_only_there(shared_daemon, pictures, case):
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, pictures, case)
        planned = run_all(shared_daemon, folder, case, "placeholder")
        for rank in range(case["world"] if planned else 0):
            wanted, _ = planned[rank]
            clean = [all(planned_id not in case["bad"] for _, planned_id, _ in rows) for rows in wanted]
            with open_rank(shared_daemon, folder, case, rank, "fail") as loader:
                taken, stopped = [], None
                try:
                    for batch in loader:
                        taken.append(rows_of(batch))
                except sl.SampleError as error:
                    stopped = error
            assert len(taken) == (clean + [False]).index(False)
            assert taken == wanted[:len(taken)]
            assert (stopped is None) == all(clean)
            if stopped is not None:
                members = {planned_id for _, planned_id, _ in wanted[len(taken)]}
                assert stopped.sample_id in members & case["bad"]
