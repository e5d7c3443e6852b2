"""The reader on a file system that serves less than asked, fails, or promises more than it holds (URG-03, LDR-13).

Each test runs read_tool for both back ends on a FUSE mount of fuse_server.py, through the page cache and with
direct I/O. Through the page cache the kernel takes a short answer for the end of the file (FUSE's rule); with direct
I/O it does not, and there an io_uring read repeats the first bytes, which is why io/unsafe_files.h exists. Skipped, with the reason, where /dev/fuse or the Python module is missing.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

fusepy = pytest.importorskip("fusepy", reason="python3-fusepy is not installed")
sys.path.insert(0, str(Path(__file__).parent))
import fuse_server  # noqa: E402

BUILD = Path(os.environ.get("SL_BUILD_DIR", Path(__file__).parents[2] / "build" / "dev"))
TOOL = BUILD / "tests" / "read_tool"


@pytest.fixture(scope="module", params=["cached", "direct"])
def mount(request, tmp_path_factory):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened here")
    if not TOOL.exists() and "SL_BUILD_DIR" not in os.environ:
        pytest.skip(f"read_tool is not built in {BUILD}; set SL_BUILD_DIR")
    folder = tmp_path_factory.mktemp("fuse")
    server = subprocess.Popen([sys.executable, fuse_server.__file__, str(folder), request.param],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if server.stdout.readline() != "ready\n":
        pytest.skip("cannot mount: " + server.communicate(timeout=30)[1].strip()[-200:])
    yield folder, request.param
    subprocess.run(["umount", "-l", str(folder)], check=True)
    server.wait(timeout=30)


@pytest.fixture(params=["uring", "threads"])
def read(request, mount):
    def run(name):
        done = subprocess.run([TOOL, request.param, mount[0] / name], capture_output=True, timeout=120)
        if done.returncode == 3:
            pytest.skip(done.stderr.decode().strip())
        assert done.returncode == 0, done.stderr.decode()
        size, count, error = re.fullmatch(r"size=(\d+) bytes=(\d+) error=(\w+)\n", done.stderr.decode()).groups()
        assert int(count) == len(done.stdout)
        return int(size), done.stdout, error
    return run


def test_a_whole_file_reads_back_right(read):
    assert read("whole") == (fuse_server.SIZE, fuse_server.CONTENT, "none")


def test_a_thousand_bytes_at_a_time_make_the_whole_file_or_an_early_end(read, mount):
    held = fuse_server.CONTENT if mount[1] == "direct" else fuse_server.CONTENT[:1000]
    assert read("short") == (fuse_server.SIZE, held, "none")


def test_an_error_past_an_offset_is_eio_after_the_good_bytes(read):
    size, content, error = read("eio")
    assert (size, error) == (fuse_server.SIZE, "EIO")
    assert 0 < len(content) <= fuse_server.EIO_FROM
    assert content == fuse_server.CONTENT[:len(content)]


def test_one_passing_eio_is_not_seen(read):
    assert read("eio_once") == (fuse_server.SIZE, fuse_server.CONTENT, "none")


def test_a_stale_handle_is_estale(read):
    assert read("stale") == (fuse_server.SIZE, b"", "ESTALE")


def test_a_file_that_holds_less_than_it_promised_gives_what_it_holds(read):
    assert read("cut") == (fuse_server.SIZE, fuse_server.CONTENT[:fuse_server.HELD_BY_CUT], "none")


def test_a_missing_file_is_enoent(read):
    assert read("missing") == (0, b"", "ENOENT")
