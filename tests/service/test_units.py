"""The units: no mistake in them, hardened, and yet all that the daemon and its workers do is allowed.

Everything here works without systemd as process 1. What the unit forbids is tried on a daemon as well as can be
done from outside: its list of system calls against those that are made, its ban of executable memory by
the kernel's own switch.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from PIL import Image
from support.capi import BUILD
from support.daemon import PROGRAMS
from support.specs import spec

ROOT = pathlib.Path(__file__).parents[2]
SERVICE = BUILD / "systemd" / "speedyloaderd.service"
SOCKET = ROOT / "systemd" / "speedyloaderd.socket"
MOST_EXPOSED = 1.9


def tool(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def units(tmp_path):
    """Both units, with the daemon of this build."""
    text = SERVICE.read_text()
    started = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE).group(1)
    (tmp_path / SERVICE.name).write_text(text.replace(started, str(PROGRAMS / "speedyloaderd")))
    shutil.copy(SOCKET, tmp_path)
    return tmp_path / SERVICE.name, tmp_path / SOCKET.name


def settings(name):
    """All values of a setting of the service, in their order."""
    return re.findall(rf"^{name}=(.*)$", SERVICE.read_text(), re.MULTILINE)


def test_systemd_analyze_finds_no_mistake(units):
    assert run(tool("systemd-analyze"), "verify", "--man=no", *units) == (0, "")


def test_a_mistake_would_be_found(units):
    service, socket = units
    service.write_text(service.read_text().replace("WatchdogSec=60", "WatchdogSec=soon"))
    assert "Failed to parse sec value" in run(tool("systemd-analyze"), "verify", "--man=no", service, socket)[1]


def test_the_exposure_is_below_2(units):
    status, output = run(tool("systemd-analyze"), "security", "--offline=true", "--no-pager",
                         f"--threshold={int(MOST_EXPOSED * 10)}", units[0])
    assert status == 0, output
    level = float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", output).group(1))
    assert level <= MOST_EXPOSED


def system_calls(group):
    """The names in a group, and in the groups that it is made of."""
    status, output = run(tool("systemd-analyze"), "syscall-filter", group)
    assert status == 0, output
    found = set()
    for line in map(str.strip, output.splitlines()[1:]):
        if line.startswith("@"):
            found |= system_calls(line)
        elif line and not line.startswith("#"):
            found.add(line)
    return found


def allowed_system_calls():
    allowed = set()
    for line in settings("SystemCallFilter"):
        groups = line.removeprefix("~").split()
        names = set().union(*(system_calls(word) if word.startswith("@") else {word} for word in groups))
        allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed


@pytest.mark.parametrize("back_end", ["auto", "threads"])
def test_every_system_call_of_daemon_and_workers_is_allowed(daemons, photos, tmp_path, back_end):
    allowed = allowed_system_calls()
    assert {"io_uring_setup", "memfd_create", "pidfd_open", "execve", "seccomp"} <= allowed
    assert not {"mount", "reboot", "ptrace", "init_module", "chroot", "bpf", "process_vm_writev"} & allowed
    trace = tmp_path / "calls"
    daemon = daemons.start("--io", back_end, wrap=[tool("strace"), "-f", "-qq", "-e", "signal=none", "-o", trace])
    daemons.run(spec(photos, profile="fast"), daemon)
    daemon.stop()
    made = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", trace.read_text(errors="replace"), re.MULTILINE))
    assert {"clone", "clone3", "vfork"} & made and "memfd_create" in made  # else nothing was seen
    assert made <= allowed, made - allowed


def test_no_decoder_needs_memory_that_is_writable_and_executable(daemons, tmp_path):
    folder = tmp_path / "pictures" / "a"
    folder.mkdir(parents=True)
    picture = Image.linear_gradient("L").convert("RGB").resize((320, 200))
    for kind in ("jpg", "png", "gif", "bmp", "tiff", "webp", "jp2"):
        picture.save(folder / f"picture.{kind}")
    wrap = [sys.executable, pathlib.Path(__file__).parent / "without_executable_memory.py"]
    if subprocess.run([*wrap, "true"]).returncode == 77:
        pytest.skip("this kernel has no PR_SET_MDWE")
    with_ban = daemons.start(wrap=wrap)
    without = daemons.start()
    job = spec(tmp_path / "pictures", errors={"policy": "fail"})
    assert daemons.run(job, with_ban)["hash"] == daemons.run(job, without)["hash"]


def test_the_socket_is_where_clients_look(units):
    path = re.search(r"^ListenSequentialPacket=(.*)$", SOCKET.read_text(), re.MULTILINE).group(1)
    assert f'"{path}"' in (ROOT / "capi" / "src" / "connect.c").read_text()


def test_sysusers_makes_the_user_and_the_group_that_the_units_name(tmp_path):
    (tmp_path / "etc").mkdir()
    status, output = run(tool("systemd-sysusers"), f"--root={tmp_path}", ROOT / "systemd" / "sysusers.conf")
    assert status == 0, output
    users = (tmp_path / "etc" / "passwd").read_text()
    groups = (tmp_path / "etc" / "group").read_text()
    assert re.search(rf"^{settings('User')[0]}:", users, re.MULTILINE)
    assert "nologin" in users
    named = re.search(r"^SocketGroup=(.*)$", SOCKET.read_text(), re.MULTILINE).group(1)
    assert re.search(rf"^{named}:", groups, re.MULTILINE)


def test_tmpfiles_makes_the_folder_of_the_socket(tmp_path):
    # Without --root: it would need a passwd there. Only the one line of ours is read.
    rules = (ROOT / "systemd" / "tmpfiles.conf").read_text()
    path = re.search(r"^d (\S+)", rules, re.MULTILINE).group(1)
    assert re.search(rf"^ListenSequentialPacket={path}/", SOCKET.read_text(), re.MULTILINE)
    changed = tmp_path / "rules.conf"
    changed.write_text(rules.replace(path, str(tmp_path / "run")))
    status, output = run(tool("systemd-tmpfiles"), "--create", changed)
    assert status == 0, output
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o755


CONFIG = ROOT / "systemd" / "speedyloader.toml"
SET_HERE = {"socket", "memory", "input", "bytes"}  # without a default, or with one that is this machine's


def check_config(file):
    """{key: value} as the daemon completes a file."""
    status, output = run(PROGRAMS / "speedyloaderd", "--check-config", file)
    assert status == 0, output
    return dict(re.findall(r"(\w+)=((?:\([^)]*\))?\S*)", output))


def test_the_annotated_configuration_names_every_key_with_its_default(tmp_path):
    annotated = CONFIG.read_text()
    assert run(PROGRAMS / "speedyloaderd", "--check-config", CONFIG)[0] == 0
    defaults = check_config(CONFIG)
    uncommented = tmp_path / "all.toml"
    uncommented.write_text(re.sub(r"^# (\w+ = |\[)", r"\1", annotated, flags=re.MULTILINE))
    shown = check_config(uncommented)
    named = set(re.findall(r"^# (\w+) = ", annotated, re.MULTILINE))
    assert set(defaults) <= named, set(defaults) - named
    for key in set(defaults) - SET_HERE:
        assert shown[key] == defaults[key], key
