"""A signal's handler may ask the loader: for the position to save before the end, or for its counters."""

import os
import signal
import subprocess
import sys

import pytest
from stalls import id_loader, ids, stopped_workers
from support.daemon import PYTHON_PACKAGES
from test_interrupts import MAIN, Alarm, when_waiting


def test_a_position_saved_by_a_handler_counts_what_was_given_and_no_batch_that_is_on_its_way(daemon, id_set):
    saved, seen = [], []

    def save_and_leave(*_):
        saved.append(loader.state_dict())
        raise Alarm

    usual = signal.signal(signal.SIGUSR1, save_and_leave)
    try:
        loader = id_loader(daemon.socket, id_set(600), slots=2)
        iterator = iter(loader)
        for _ in range(10):
            with stopped_workers(daemon) as let_go_on:
                sender = when_waiting(lambda: os.kill(MAIN, signal.SIGUSR1), let_go_on)
                with pytest.raises(Alarm):
                    while True:
                        seen += ids(next(iterator))
                sender.join()
            assert saved[-1]["batch"] == len(seen) / 4
        assert seen + [i for batch in iterator for i in ids(batch)] == list(range(600))
    finally:
        signal.signal(signal.SIGUSR1, usual)


PROGRAM = """
import signal, sys
import speedyloader as sl

loader = sl.Loader(sys.argv[2], [sl.Resize((2, 2))], dtype="uint8", batch_size=4, socket=sys.argv[1])
asked = 0

def ask(*_):
    global asked
    asked += 1
    assert loader.state_dict()["epoch"] == 0 and loader.stats()["slots"] > 0

signal.signal(signal.SIGALRM, ask)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while asked < 300:
    loader.report()
    loader.info, loader.stats()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_handler_may_ask_the_loader_while_the_loader_answers(daemon, id_set, tmp_path):
    program = tmp_path / "ask.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program, daemon.socket, id_set(60)], check=True, timeout=60,
                   env=os.environ | {"PYTHONPATH": str(PYTHON_PACKAGES)})
