"""One budget for all shared memory: what goes beyond it is refused with numbers, what is granted suffices."""

import contextlib
import pathlib
import re

import pytest

from support.capi import Client, Error
from support.daemon import wait_for
from support.specs import id_spec, spec

MIB = 1 << 20
EPOCHS = 20
WARM = 10
# What a process needs besides shared memory: code, heap, the decoders' working memory. Three processes.
PROCESS_OVERHEAD = 150 * MIB


def numbers(text):
    return [int(found) for found in re.findall(r"\((\d+) bytes\)", text)]


def test_a_stream_beyond_the_budget_is_refused_with_needed_and_available_bytes(daemons, few_photos):
    daemon = daemons.start("--input", "64MiB", memory="256MiB")
    status, result, err = daemons.try_run(spec(few_photos, size=(512, 512), batch=40), daemon)
    assert status == 1 and result is None and err.count("\n") == 1
    needed, available, total = numbers(err)
    assert total == 256 * MIB and available == 192 * MIB and needed > 4 * 40 * 3 * 512 * 512 * 4
    assert daemon.status()["memory"]["reserved"] == 64 * MIB
    daemons.run(spec(few_photos, size=(64, 64), batch=20), daemon)


def test_a_stream_beyond_the_machine_is_refused_with_both_numbers(daemons, id_set):
    daemon = daemons.start("--input", "64MiB", memory="1000TiB")
    job = id_spec(id_set(40))
    job["pipeline"][1]["size"] = [10_000, 10_000]
    job["batch"]["size"] = 10_000
    status, _, err = daemons.try_run(job, daemon)
    assert status == 1
    assert "the machine has only" in err
    needed, available = numbers(err)
    assert needed > 10_000 * 3 * 10_000 * 10_000 > available


def test_a_closed_streams_memory_serves_the_next(daemons, few_photos):
    daemon = daemons.start("--input", "64MiB", memory="192MiB")
    job = spec(few_photos, size=(224, 224), batch=32)
    with Client(daemon.socket) as client:
        for _ in range(3):
            stream = client.open(job)
            with pytest.raises(Error, match="SL_E_BUDGET"):
                client.open(job)
            stream.next()[1].release()
            stream.close()
            wait_for(lambda: client.status()["memory"]["reserved"] == 64 * MIB, 5)


class Resident:
    """Proportional set sizes of processes, added up: shared pages count once."""

    def __init__(self, pids):
        self.all = self.shared = 0
        for pid in pids:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            self.all += kilobytes(text, "Pss") * 1024
            self.shared += kilobytes(text, "Pss_Shmem") * 1024
        self.own = self.all - self.shared


def kilobytes(text, name):
    return int(re.search(rf"^{name}:\s*(\d+) kB$", text, re.MULTILINE).group(1))


def consumed(stream):
    """Batches of a status's stream that its client has taken."""
    return stream["batches"] - stream["unread"]


def test_daemon_workers_and_client_stay_within_the_budget_over_20_epochs(daemons, few_photos):
    budget = 160 * MIB
    daemon = daemons.start("--input", "64MiB", memory="160MiB")
    client = daemons.begin(spec(few_photos, size=(128, 128), batch=5, epochs=EPOCHS), daemon)
    first, later = [], []
    with Client(daemon.socket) as observer:
        wait_for(lambda: observer.status()["streams"], 10)

        def measure():
            status = observer.status()
            if not status["streams"]:
                return True
            with contextlib.suppress(OSError):  # the client ended meanwhile
                size = Resident([daemon.pid, client.pid, *(worker["pid"] for worker in status["workers"])])
                (first if consumed(status["streams"][0]) < WARM * 8 else later).append(size)
            return False

        wait_for(measure, 60)
    _, err = client.communicate(timeout=10)
    assert client.returncode == 0, err
    assert len(first) > 1 and len(later) > 10
    assert max(size.all for size in later) < budget + PROCESS_OVERHEAD
    # Shared memory is reserved when the stream opens, but its pages count only once they have been touched.
    assert max(size.shared for size in later) < budget
    # Each process's heap reaches its usual size within a few epochs, sooner or later by the machine's load.
    assert max(size.own for size in later) - max(size.own for size in first) < 10 * MIB
