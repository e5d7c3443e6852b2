"""A client needs only the daemon's socket: it works from other IPC, PID and mount name spaces, and a user without
permission is told which user and which socket. Run by pytest as root; other users cannot make name spaces."""

import os
import pathlib
import select
import subprocess
import tempfile

import pytest

BUILD = pathlib.Path(os.environ.get("SL_BUILD_DIR", "build/dev")).resolve() / "bin"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make name spaces and change users")


@pytest.fixture
def folder():
    # Not tmp_path: that is closed to other users, and the socket's own permission is what is tested.
    with tempfile.TemporaryDirectory(prefix="sl-ns-") as name:
        os.chmod(name, 0o711)
        yield pathlib.Path(name)


@pytest.fixture
def socket(folder):
    path = folder / "daemon.sock"
    command = [BUILD / "speedyloaderd", "--socket", path, "--workers", "1"]
    daemon = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        said = b""
        while b"ready" not in said:
            assert select.select([daemon.stderr], [], [], 60)[0], f"the daemon is not ready: {said}"
            more = os.read(daemon.stderr.fileno(), 65536)
            assert more, f"the daemon ended: {said}"
            said += more
        yield path
    finally:
        daemon.terminate()
        daemon.communicate(timeout=10)


def test_LDR_18_a_client_in_other_name_spaces_streams_over_the_socket_alone(socket, folder):
    photos = folder / "set"
    made = [BUILD / "sl_make_photos", photos, "--count", "12", "--classes", "2"]
    subprocess.run(made, check=True, capture_output=True)
    apart = ["unshare", "--ipc", "--pid", "--mount", "--mount-proc", "--fork"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let name spaces be made")
    run = [BUILD / "speedyctl", "run", photos, "--socket", socket]
    done = subprocess.run([*apart, *run], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "every sample, in 1 epoch" in done.stdout


def test_LDR_18_a_user_without_permission_is_told_user_and_socket(socket):
    socket.chmod(0o600)
    other = ["setpriv", "--reuid", "65534", "--clear-groups"]
    if subprocess.run([*other, "test", "-x", BUILD / "speedyctl"]).returncode != 0:
        pytest.skip("the build folder is closed to other users")
    done = subprocess.run([*other, BUILD / "speedyctl", "status", "--socket", socket], capture_output=True, text=True)
    assert done.returncode == 1
    assert "user 65534" in done.stderr and str(socket) in done.stderr and "Permission denied" in done.stderr
