"""The configuration's [[root]] and [limits]: mistakes in them, and SIGHUP while the daemon runs."""

import os
import signal
import subprocess

import pytest
from support.capi import Client, Error
from support.daemon import PROGRAMS, wait_for
from support.specs import id_spec
from support.users import MEMBER, root


def check(folder, text):
    file = folder / "speedyloader.toml"
    file.write_text(text)
    done = subprocess.run([str(PROGRAMS / "speedyloaderd"), "--check-config", str(file)], capture_output=True,
                          text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("text, words", [
    ('[[root]]\npath = "data"\ngroup = 1\n', ("line 2", "root.path", "absolute")),
    ('[[root]]\npath = "/none/at/all"\ngroup = 1\n', ("line 2", "root.path", "No such file")),
    ('[[root]]\npath = "/etc/passwd"\ngroup = 1\n', ("root.path", "no folder")),
    ('[[root]]\npath = "/tmp"\ngroup = "no such group"\n', ("line 3", "root.group", "no such group")),
    ('[[root]]\npath = "/tmp"\ngroup = true\n', ("root.group", "name or number")),
    ('[[root]]\npath = "/tmp"\n', ("line 1", "a root has a group")),
    ('[[root]]\ngroup = 1\n', ("a root has a path",)),
    ('[[root]]\npath = "/tmp"\ngroup = 1\nmode = 7\n', ("line 4", "unknown key root.mode")),
    ('[root]\npath = "/tmp"\n', ("[[root]]",)),
    ('[limits]\nstreams = "many"\n', ("line 2", "limits.streams", "whole number")),
    ('[limits]\nclients = -1\n', ("limits.clients",)),
    ('[limits]\nbytes = "much"\n', ("limits.bytes", "no size")),
    ('[limits]\nfiles = 1\n', ("unknown key limits.files",)),
    ('[metrics]\nport = 1\n', ("unknown section metrics", "daemon, limits, root")),
    ('[daemon]\nworkers = 4294967296\n', ("line 2", "daemon.workers", "from 1 to 1024")),
    ('[daemon]\nio_entries = 1\n', ("daemon.io_entries", "from 2 to 4096")),
    ('[daemon]\nio_threads = 257\n', ("daemon.io_threads", "from 1 to 256")),
    ('[daemon]\nlog_level = "loud"\n', ("daemon.log_level", "trace, debug")),
])
def test_a_mistake_is_an_error_that_names_line_and_key(tmp_path, text, words):
    status, _, err = check(tmp_path, text)
    assert status == 1 and err.count("\n") == 1
    for word in words:
        assert word in err


def test_the_roots_and_limits_are_shown(tmp_path):
    status, out, err = check(tmp_path, '[daemon]\nmemory = "4 GiB"\n[limits]\nstreams = 0\nclients = 12\n'
                                       '[[root]]\npath = "/tmp"\ngroup = "root"\n')
    assert status == 0, err
    for word in ("limits.bytes=2.0 GiB", "limits.streams=none", "limits.clients=12", "limits.connects=100",
                 "root=/tmp (group root)"):
        assert word in out


def hang_up(daemon, text, expected):
    """SIGHUP with another file; the log once it says so."""
    before = len(daemon.log())
    daemon.config.write_text(text)
    os.kill(daemon.pid, signal.SIGHUP)
    wait_for(lambda: expected in daemon.log()[before:], 10, daemon.log)
    return daemon.log()[before:]


def opens(daemon, folder):
    with MEMBER.client(daemon) as client:
        try:
            client.open(id_spec(folder, batch=4)).close()
        except Error as error:
            return error.code
    return "opens"


def test_SIGHUP_takes_over_roots_and_limits_and_leaves_open_streams_alone(serve, tree):
    daemon = serve(root(tree / "root"))
    train = tree / "root" / "train"
    with MEMBER.client(daemon) as client:
        stream = client.open(id_spec(train, batch=1))
        stream.next()[1].release()
        hang_up(daemon, root(tree / "secret") + "[limits]\nstreams = 1\n", "reloaded")
        assert opens(daemon, train) == "SL_E_BUDGET"
        stream_ids = [i for batch in stream.batches() for i in batch.ids()]
        assert len(stream_ids) == 11
        stream.close()
    assert opens(daemon, train) == "SL_E_DENIED"
    assert opens(daemon, tree / "secret") == "opens"


def test_a_mistake_in_the_file_changes_nothing(serve, tree):
    daemon = serve(root(tree / "root"))
    for text in ("[limits]\nstreams = -1\n", root(tree / "none"), "[limits"):
        assert "speedyloader.toml line" in hang_up(daemon, text, "not reloaded")
        assert opens(daemon, tree / "root" / "train") == "opens"
        assert opens(daemon, tree / "secret") == "SL_E_DENIED"


def test_the_log_level_is_reloaded_and_what_is_not_is_named(serve, tree):
    daemon = serve(root(tree / "root"))
    same = hang_up(daemon, root(tree / "root"), "reloaded")
    assert "restart" not in same
    said = hang_up(daemon, '[daemon]\nworkers = 7\nread_timeout = "9 s"\n', "need a restart")
    assert "daemon.workers, daemon.read_timeout" in said
    hang_up(daemon, '[daemon]\nlog_level = "error"\n[limits]\nfiles = 1\n', "not reloaded")
    daemon.config.write_text('[daemon]\nlog_level = "off"\n')
    os.kill(daemon.pid, signal.SIGHUP)
    before = len(daemon.log())
    wait_for(lambda: opens(daemon, tree / "root" / "train") == "SL_E_DENIED", 10)
    daemon.config.write_text(root(tree / "root"))
    os.kill(daemon.pid, signal.SIGHUP)
    wait_for(lambda: "reloaded" in daemon.log()[before:], 10)


def test_without_a_file_SIGHUP_ends_the_daemon(daemons):
    daemon = daemons.start()
    os.kill(daemon.pid, signal.SIGHUP)
    assert daemon.process.wait(30) == -signal.SIGHUP
    with pytest.raises(Error):
        Client(daemon.socket)
    daemon.socket.unlink()
