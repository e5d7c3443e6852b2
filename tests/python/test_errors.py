"""Every exception of the package by a cause that really happens: its class, words, attributes and pickle."""

import pickle
import re

import pytest
import speedyloader as sl
from loaders import TINY, WAIT_S, open_in_order, same
from support.daemon import wait_for


def exceptions(module):
    return [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Exception)]


EXCEPTIONS = sorted(exceptions(sl), key=lambda kind: kind.__name__)


# ---- all of them ----


def make(kind):
    if kind is sl.SampleError:
        return kind("sample 3 (/a): corrupt: why", "SL_E_SAMPLE", 5, 3, "/a", "corrupt", 7)
    return kind("why") if kind in (sl.RingExhausted, sl.ClosedError) else kind("why", "SL_E_IO", 5)


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_an_exception_comes_back_from_a_pickle_as_it_was(kind):
    """So that it crosses from a child process to its parent."""
    error = make(kind)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert same(pickle.loads(pickle.dumps(error, protocol)), error)
    assert error.code.startswith("SL_E_")


@pytest.mark.parametrize("kind, builtin", [
    (sl.SpecError, ValueError), (sl.NotFoundError, LookupError), (sl.DeniedError, PermissionError),
    (sl.BudgetError, MemoryError), (sl.DisconnectedError, ConnectionError),
    (sl.NoDaemonError, ConnectionError), (sl.ForkedError, RuntimeError),
    (sl.UnsupportedError, NotImplementedError), (sl.WaitTimeout, TimeoutError),
    (sl.StreamEnded, RuntimeError), (sl.RingExhausted, RuntimeError), (sl.ClosedError, RuntimeError)])
def test_whoever_catches_pythons_own_exception_catches_ours(kind, builtin):
    assert issubclass(kind, builtin) and issubclass(kind, sl.Error)


def test_no_exception_is_raised_that_is_not_exported():
    from speedyloader import errors

    assert set(exceptions(errors)) == set(EXCEPTIONS)
    assert set(errors._CLASSES.values()) <= set(EXCEPTIONS)


def test_an_unknown_status_is_still_an_Error_with_its_code_and_errno():
    from speedyloader.errors import from_record

    error = from_record("SL_E_IO", "the disk is gone", "", 0, "", -1, 5)
    assert (type(error), error.code, error.errno, str(error)) == (sl.Error, "SL_E_IO", 5, "the disk is gone")
    assert from_record("SL_E_PROTOCOL", "", "", 0, "", -1, 0).errno is None


# ---- memory ----


def numbers(error):
    return [int(found) for found in re.findall(r"\((\d+) bytes\)", str(error))]


def test_more_memory_than_the_budget_is_a_BudgetError_with_both_numbers(daemons, id_set):
    daemon = daemons.start(memory="256MiB")
    with pytest.raises(sl.BudgetError) as refused:
        open_in_order(daemon, id_set(40), [sl.Resize((1000, 1000))], batch_size=40)
    needed, available, total = numbers(refused.value)
    assert needed > 2 * 40 * 3 * 1000 * 1000 > available and total == 256 << 20
    assert refused.value.code == "SL_E_BUDGET" and isinstance(refused.value, MemoryError)
    assert len(list(open_in_order(daemon, id_set(40)))) == 5  # what fits is still served


def test_a_ring_that_is_held_is_a_RingExhausted_that_says_which_batches(shared_daemon, id_set):
    job = open_in_order(shared_daemon, id_set(40), slots=2, ring_full="error")
    batches = iter(job)
    held = [next(batches), next(batches)]
    with pytest.raises(sl.RingExhausted, match="batch 0 of epoch 0.*batch 1 of epoch 0") as exhausted:
        next(batches)
    assert "all 2 slots" in str(exhausted.value)
    assert same(pickle.loads(pickle.dumps(exhausted.value)), exhausted.value)
    held.clear()
    assert [batch.index for batch in batches] == [2, 3, 4]


# ---- daemons ----


def test_a_socket_where_nobody_answers_is_a_NoDaemonError_with_its_name(tmp_path, id_set, monkeypatch):
    socket = tmp_path / "socket"
    with pytest.raises(sl.NoDaemonError, match=re.escape(str(socket))) as missing:
        sl.Loader(id_set(40), TINY, batch_size=8, socket=socket)
    assert missing.value.code == "SL_E_NO_DAEMON" and missing.value.errno == 2
    monkeypatch.setenv("SPEEDYLOADER_SOCKET", str(socket))
    with pytest.raises(sl.NoDaemonError, match=re.escape(str(socket))):
        sl.Loader(id_set(40), TINY, batch_size=8)


@pytest.mark.usefixtures("private_name")
def test_a_private_daemon_that_cannot_be_started_is_a_NoDaemonError_with_its_program(tmp_path, id_set,
                                                                                     monkeypatch):
    monkeypatch.setenv("SPEEDYLOADER_DAEMON", str(tmp_path / "no_such_program"))
    with pytest.raises(sl.NoDaemonError, match="no_such_program"):
        sl.Loader(id_set(40), TINY, batch_size=8)


def test_a_daemon_that_dies_is_a_DisconnectedError_and_the_position_is_still_known(daemons, id_set):
    daemon = daemons.start()
    job = open_in_order(daemon, id_set(40), slots=2, reconnect=False)
    batches = iter(job)
    held = next(batches)
    daemon.kill()

    def disconnected():
        try:
            next(batches, None)
        except sl.DisconnectedError as error:
            return error
        return None

    error = wait_for(disconnected, WAIT_S)
    assert error.code == "SL_E_DISCONNECTED" and isinstance(error, ConnectionError)
    assert held.numpy("sample_id").tolist() == list(range(8))
    state = job.state_dict()
    assert state["batch"] >= 1
    other = daemons.start()
    with open_in_order(other, id_set(40)) as resumed:
        resumed.load_state_dict(state)
        (*_, last) = resumed
    assert last.numpy("sample_id").tolist() == list(range(32, 40))


def test_a_loader_in_a_forked_child_is_a_ForkedError(daemons, shared_daemon, id_set, tmp_path):
    program = tmp_path / "fork.py"
    program.write_text(FORKS)
    child = daemons.begin_python(program, shared_daemon.socket, id_set(40))
    out, _ = child.communicate(timeout=WAIT_S)
    assert out.splitlines() == ["ForkedError SL_E_FORKED", "child 40", "parent 40"]


FORKS = """
import os, sys
import speedyloader as sl

def ids(loader):
    return len({i for batch in loader for i in memoryview(batch["sample_id"]).tolist()})

def make():
    return sl.Loader(sys.argv[2], [sl.Resize((2, 2))], batch_size=8, last="keep", dtype="uint8", timeout=60,
                     socket=sys.argv[1])

loader = make()
if (pid := os.fork()) == 0:
    try:
        next(iter(loader))
    except sl.ForkedError as error:
        print(type(error).__name__, error.code)
    print("child", ids(make()), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print("parent", ids(loader))
"""


# ---- tensors and states ----


def test_a_tensor_that_is_not_there_is_a_KeyError_that_lists_those_that_are(shared_daemon, id_set):
    batch = next(iter(open_in_order(shared_daemon, id_set(40))))
    assert "images" not in batch and "image" in batch
    with pytest.raises(KeyError, match="images.*image label sample_id valid"):
        batch["images"]


def test_a_state_that_does_not_fit_names_every_difference_with_both_values(shared_daemon, id_set):
    state = open_in_order(shared_daemon, id_set(40), seed=1).state_dict()
    for change in ({"seed": 2}, {"samples": 41}, {"global_batch": 16}, {"last": "drop"}, {"shuffle": True},
                   {"order": 2}, {"speedyloader_state": 2}, {"dataset": "0123456789abcdef"}):
        ((key, value),) = change.items()
        with pytest.raises(sl.SpecError) as refused:
            open_in_order(shared_daemon, id_set(40), seed=1).load_state_dict(state | change)
        shown = [str(known).lower() for known in (value, state[key])]
        assert key in str(refused.value) and all(known in str(refused.value).lower() for known in shown), key
    for place in ({"epoch": 2}, {"batch": 6}, {"epoch": -1}):
        with pytest.raises(sl.SpecError, match=next(iter(place))):
            open_in_order(shared_daemon, id_set(40), seed=1).load_state_dict(state | place)
