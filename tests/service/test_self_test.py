"""speedyloaderd --self-test: good where all is well, and a line that says what is not where it is not."""

import pathlib
import shutil
import subprocess
import sys

import pytest
from support.daemon import PROGRAMS, marked, wait_for

BROKEN_WORKER = "#!/bin/sh\nexit 3\n"


def self_test(daemons, folder=PROGRAMS, wrap=(), **environment):
    """(exit status, {what: (verdict, text)})"""
    done = subprocess.run([*wrap, folder / "speedyloaderd", "--self-test"], capture_output=True, text=True,
                          timeout=60, env=daemons.environment | environment)
    lines = [line.split(None, 1) for line in done.stdout.splitlines()]
    found = {rest[:16].strip(): (verdict, rest[16:]) for verdict, rest in lines}
    assert found, done.stderr
    wait_for(lambda: not marked(daemons.mark), 5, lambda: marked(daemons.mark))
    assert list(daemons.temporary.iterdir()) == []
    return done.returncode, found


@pytest.fixture
def copy(daemons):
    """The programs in a folder of their own, where one can be broken; the library stays where it was."""
    folder = daemons.folder / "bin"
    folder.mkdir()
    for name in ("speedyloaderd", "speedyloader-worker", "speedyctl"):
        shutil.copy(PROGRAMS / name, folder / name)
    return folder


def test_every_part_is_tried_and_good_here(daemons):
    status, found = self_test(daemons)
    assert {what for what, (verdict, _) in found.items() if verdict == "ok"} == {
        "shared memory", "io_uring", "pictures", "daemon", "reading", "samples", "workers", "leaving"}, found
    assert status == 0
    assert found["samples"][1] == "12 samples (PNG, BMP, JPEG) in 3 batches, each once, every byte right"


def test_a_user_without_rights_may_run_it(daemons, as_nobody):
    status, found = self_test(daemons, wrap=as_nobody)
    assert status == 0, found


def test_a_machine_that_refuses_io_uring_is_good_and_it_is_said(daemons):
    wrap = [sys.executable, pathlib.Path(__file__).parents[1] / "reading" / "without_uring.py"]
    status, found = self_test(daemons, wrap=wrap)
    assert status == 0, found
    assert found["io_uring"][1].startswith("refused, threads read instead: ")
    assert found["reading"][1].startswith("threads")


def test_workers_that_die_are_a_failure(daemons, copy):
    (copy / "speedyloader-worker").write_text(BROKEN_WORKER)
    status, found = self_test(daemons, copy)
    assert status == 1
    assert found["samples"][0] == "FAIL" and "speedyloader-worker" in found["samples"][1]


def test_a_daemon_without_its_client_says_so(daemons, copy):
    (copy / "speedyctl").unlink()
    status, found = self_test(daemons, copy)
    assert status == 1
    assert found["client"][0] == "FAIL" and "speedyctl" in found["client"][1]
    assert found["shared memory"][0] == "ok"


def test_a_temporary_folder_that_cannot_be_made_is_a_failure(daemons):
    status, found = self_test(daemons, TMPDIR="/proc/nowhere")
    assert status == 1
    assert found["pictures"][0] == "FAIL"


def test_the_private_daemon_of_a_user_is_not_the_one_that_is_tried(daemons):
    """Its socket's name is another, and an environment that names a daemon is not followed."""
    status, found = self_test(daemons, SPEEDYLOADER_SOCKET="/nowhere", SPEEDYLOADER_DAEMON="/bin/false",
                              SPEEDYLOADER_DAEMON_ARGS="--wrong")
    assert status == 0, found
