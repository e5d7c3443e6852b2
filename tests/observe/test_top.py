"""`speedyctl top` as it is met: in a terminal it refreshes until q or Ctrl-C, elsewhere it says its piece once."""

import json
import os
import pty
import re
import signal
import subprocess
import termios

import pytest
from support.daemon import PROGRAMS
from support.specs import id_spec

from consumers import FOREVER, Job


@pytest.fixture
def busy(daemons, id_set):
    """A daemon with a job."""
    daemon = daemons.start()
    with Job(daemon, id_spec(id_set(60), batch=4, epochs=FOREVER), step=0.02) as job:
        job.warm(2)
        yield daemon


def test_where_there_is_no_terminal_it_prints_once(daemons, busy):
    said = daemons.ask(busy, "top", "--interval", "0.5")
    assert "\x1b" not in said
    for words in ("speedyloaderd", f"pid {busy.pid}", "decode", "ids_60", "client", "bottleneck", "light"):
        assert words in said, said
    row = next(line for line in said.splitlines() if line.endswith("ids_60"))
    assert 20 < int(row.split()[1]) <= 212  # samples/s: 4 in 20 ms and more, and 4 at the edge


def test_its_json_holds_status_and_verdict(daemons, busy):
    said = json.loads(daemons.ask(busy, "top", "--interval", "0.5", "--json"))
    assert said["status"]["pid"] == busy.pid
    assert said["verdict"]["streams"][0]["samples_per_s"] > 0


def until(fd, words, times=1):
    """Reads the terminal until the words have come so often."""
    text = ""
    while text.count(words) < times:
        text += os.read(fd, 65536).decode()
    return text


@pytest.mark.parametrize("how", ["q", "ctrl-c"])
def test_in_a_terminal_it_refreshes_until_it_is_told_to_end_and_sets_the_terminal_back(daemons, busy, how):
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = [PROGRAMS / "speedyctl", "top", "--socket", busy.socket, "--interval", "0.1"]
    top = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=daemons.environment)
    try:
        text = until(ours, "speedyloaderd", 3)
        assert "\x1b[H" in text
        assert all(len(re.sub(r"\x1b\[[0-9]*[A-Z]", "", line)) <= 80 for line in text.split("\r\n"))
        if how == "q":
            os.write(ours, b"q")
        else:
            top.send_signal(signal.SIGINT)
        assert top.wait(timeout=30) == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        top.kill()
        top.wait()
        os.close(ours)
        os.close(theirs)


def test_without_a_daemon_each_look_fails_and_starts_none(daemons):
    for verb in ("top", "verdict", "trace"):
        command = [PROGRAMS / "speedyctl", verb, "--socket", daemons.folder / "nobody"]
        done = subprocess.run(command, capture_output=True, text=True, env=daemons.environment, timeout=60)
        assert done.returncode == 1, done
        assert "no daemon is running" in done.stderr
