"""What a decoder that has been taken over can do: each way out is tried by a worker in the middle of a decode, and the
answer comes back as the sample's error, or as the worker's death (docs/sandbox.md lists the same)."""

import os
import shutil

import pytest

import test_card
from support.capi import BUILD, Client
from support.daemon import PROGRAMS, wait_for
from support.quarantine import PLENTY
from support.specs import id_spec

REFUSED = ["open", "openat", "openat2", "creat", "unlink", "rename", "mkdir", "stat", "chdir", "socket", "socketpair",
           "connect", "fork", "clone", "new_namespace", "execve", "ptrace", "process_vm_writev", "process_vm_readv",
           "kill", "tgkill", "pidfd_open", "exec_memory", "protect_exec", "memfd_create", "io_uring_setup", "bpf",
           "userfaultfd", "perf_event_open", "prctl", "setrlimit_descriptors", "setrlimit_memory", "setuid", "fcntl"]
ALLOWED = ["nothing", "thread"]
ANSWERED = {"protect_input": "Permission denied", "more_memory": "Cannot allocate memory"}
DEATHS = {"write_input": 11, "write_code": 11, "behind_samples": 7}

# What anybody may do without the sandbox, without harm: that each of these is not refused then shows that it is
# the sandbox that refuses.
HARMLESS = ["open", "openat", "openat2", "creat", "mkdir", "stat", "chdir", "socket", "socketpair", "fork", "clone",
            "exec_memory", "protect_exec", "memfd_create", "pidfd_open", "kill", "prctl", "fcntl", "more_memory"]

sanitized = "SL_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text()


def answers(daemons, folder, names, *flags):
    """{name: what the worker said}, and the daemon."""
    (folder / "tries").mkdir()
    for name in names:
        (folder / "tries" / f"{name}.png").write_text(f"SL-TEST-TRY {name}\n")
    test_card.id_pictures(folder / "pictures", 6, classes=1)
    daemon = daemons.start(*flags)
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(folder, batch=10, errors={"policy": "placeholder", **PLENTY}))
        delivered = sum(sum(batch.valid()) for batch in stream.batches())
        report = stream.report()
        stream.close()
    assert delivered == 6
    told = {os.path.basename(failure["path"]).removesuffix(".png"): failure for failure in report["failures"]}
    for name, failure in sorted(told.items()):
        print(f"{name}: {failure['kind']}: {failure['reason']}")
    return told, daemon


def test_a_decoder_can_reach_nothing_but_its_memory(daemons, open_folder):
    told, daemon = answers(daemons, open_folder, REFUSED + ALLOWED)
    assert {name: told[name]["reason"] for name in REFUSED} == {
        name: f"{name}: Operation not permitted" for name in REFUSED}
    assert {name: told[name]["reason"] for name in ALLOWED} == {name: f"{name}: done" for name in ALLOWED}
    status = daemon.status()
    assert (status["worker_deaths"], status["sandbox"]) == (0, True)
    assert "sandbox=true" in daemon.log()


@pytest.mark.skipif(sanitized, reason="sanitizers need memory without bounds, and report such writes themselves")
def test_a_decoder_that_writes_where_it_may_not_is_stopped_by_the_kernel(daemons, open_folder):
    told, daemon = answers(daemons, open_folder, [*ANSWERED, *DEATHS])
    assert {name: told[name]["reason"] for name in ANSWERED} == {
        name: f"{name}: {answer}" for name, answer in ANSWERED.items()}
    for name, signal in DEATHS.items():
        assert told[name]["kind"] == "poison"
        assert f"signal {signal}" in told[name]["reason"], told[name]
    assert daemon.status()["worker_deaths"] == 2 * len(DEATHS)


def test_a_decoder_that_starts_threads_without_end_is_killed(daemons, open_folder):
    told, daemon = answers(daemons, open_folder, ["threads"])
    assert told["threads"]["reason"] in ("threads: done", "threads: Resource temporarily unavailable",
                                         "threads: Cannot allocate memory", "threads: Operation not permitted")
    wait_for(lambda: daemon.status()["worker_deaths"] == 1, 10)
    assert " threads: killed" in daemon.log()


def test_without_the_sandbox_the_same_attempts_are_not_refused(daemons, open_folder):
    told, daemon = answers(daemons, open_folder, HARMLESS, "--no-sandbox")
    refused = [name for name in HARMLESS if told[name]["reason"] not in (f"{name}: done",)]
    assert refused == []
    assert daemon.status()["sandbox"] is False
    (daemons.temporary / "escaped").unlink()
    (daemons.temporary / "escaped-folder").rmdir()


def those_at_work(daemon):
    """Workers that have decoded something; another may still be loading its codecs."""
    return [worker["pid"] for worker in daemon.status()["workers"] if worker["completed"] > 0]


def test_every_worker_is_confined(daemons, daemon, id_set):
    daemons.run(id_spec(id_set(40)), daemon)
    for pid in those_at_work(daemon):
        lines = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
        assert (lines["NoNewPrivs"].strip(), lines["Seccomp"].strip()) == ("1", "2")
        limits = open(f"/proc/{pid}/limits").read()
        assert [word for word in limits.splitlines() if word.startswith("Max open files")][0].split()[3:5] == ["16", "16"]


@pytest.mark.skipif(sanitized, reason="sanitizers need memory without bounds")
def test_a_stream_with_larger_pictures_gets_the_memory_for_them(daemons, daemon, id_set):
    def limit(pid):
        line = [line for line in open(f"/proc/{pid}/limits") if line.startswith("Max data size")][0]
        return int(line.split()[3])

    job = id_spec(id_set(40), batch=10)
    daemons.run(job, daemon)
    pid = those_at_work(daemon)[0]
    assert limit(pid) == 2**29 + 2**28 * 16
    job["dataset"]["max_pixels"] = 2**29
    daemons.run(job, daemon)
    assert limit(pid) == 2**29 + 2**29 * 16


def test_a_worker_that_cannot_close_its_sandbox_does_not_start_and_the_daemon_says_why(daemons, open_folder, tmp_path):
    """A worker whose kernel refuses filters: strace answers in the kernel's place."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    refusing = tmp_path / "refusing"
    refusing.write_text("#!/bin/sh\nexec strace -f -o /dev/null -e inject=seccomp:error=EINVAL "
                        f"{PROGRAMS / 'speedyloader-worker'} \"$@\"\n")
    refusing.chmod(0o755)
    test_card.id_pictures(open_folder, 6)
    daemon = daemons.start("--worker-program", refusing)
    status, _, said = daemons.try_run(id_spec(open_folder), daemon)
    assert status != 0
    assert "die as soon as they start: the sandbox's system call filter cannot be installed" in said
    assert "--no-sandbox" in said
