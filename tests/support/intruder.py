"""What a process tries with what a daemon gave it, and with what it did not. Run as a program: SOCKET SPEC PID...

Opens a stream over a raw connection and tries, one by one, to change or to reach what is not its own; the PIDs are the
daemon and its workers. Prints a JSON object: attempt -> "ok", or the name of its errno. It needs no file of the
project but this one and raw.py, and is meant to run as a user who has no rights to any.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import sys

from support.raw import RawClient, Refused

BATCHES, RETURNS = 1, 2
PAGE = 4096
F_ADD_SEALS, F_SEAL_WRITE, F_SETLEASE = 1033, 8, 1024
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE = 1, 2
PTRACE_SEIZE = 0x4206
SYS_PROCESS_VM_READV, SYS_PROCESS_VM_WRITEV, SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 310, 311, 434, 438

libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def outcome(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def map_shared(fd, protection):
    mmap.mmap(fd, PAGE, mmap.MAP_SHARED, protection).close()


def make_writable(fd):
    """mprotect of a map that was lawfully made to read."""
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(PAGE), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
    try:
        checked(libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(PAGE), mmap.PROT_READ | mmap.PROT_WRITE))
    finally:
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(PAGE))


def fallocate(fd, mode, offset, length):
    checked(libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def lease(fd):
    fcntl.fcntl(fd, F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(fd, F_SETLEASE, fcntl.F_UNLCK)


def with_file(fd, name):
    """What can be tried with a memfd, whichever access its descriptor has."""
    bytes_now = os.fstat(fd).st_size
    link = f"/proc/self/fd/{fd}"
    return {
        f"{name}: write": lambda: os.pwrite(fd, b"x", 0),
        f"{name}: map to write": lambda: map_shared(fd, mmap.PROT_READ | mmap.PROT_WRITE),
        f"{name}: mprotect to write": lambda: make_writable(fd),
        f"{name}: re-open to write": lambda: os.close(os.open(link, os.O_RDWR)),
        f"{name}: re-open only to write": lambda: os.close(os.open(link, os.O_WRONLY)),
        f"{name}: re-open and cut": lambda: os.close(os.open(link, os.O_WRONLY | os.O_TRUNC)),
        f"{name}: cut by name": lambda: os.truncate(link, 0),
        f"{name}: grow": lambda: os.ftruncate(fd, bytes_now + PAGE),
        f"{name}: shrink": lambda: os.ftruncate(fd, bytes_now - PAGE),
        f"{name}: allocate more": lambda: fallocate(fd, 0, bytes_now, PAGE),
        f"{name}: punch a hole": lambda: fallocate(fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, 0, PAGE),
        f"{name}: change its mode": lambda: os.fchmod(fd, 0o666),
        f"{name}: change its owner": lambda: os.fchown(fd, os.getuid(), os.getgid()),
        f"{name}: seal": lambda: fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE),
        f"{name}: lease": lambda: lease(fd),
    }


def open_all_files(pid):
    """A memfd of another process, through its descriptors."""
    folder = f"/proc/{pid}/fd"
    for number in os.listdir(folder):
        if "memfd:" in os.readlink(f"{folder}/{number}"):
            os.close(os.open(f"{folder}/{number}", os.O_RDONLY))


def take_descriptor(pid):
    process = checked(libc.syscall(SYS_PIDFD_OPEN, pid, 0))
    try:
        os.close(checked(libc.syscall(SYS_PIDFD_GETFD, process, 3, 0)))
    finally:
        os.close(process)


def touch_memory(call, pid):
    buffer = ctypes.create_string_buffer(16)
    part = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)
    checked(libc.syscall(call, pid, part, 1, part, 1, 0))


def with_process(pid, name):
    return {
        f"{name}: its descriptors": lambda: open_all_files(pid),
        f"{name}: take a descriptor": lambda: take_descriptor(pid),
        f"{name}: its memory": lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)),
        f"{name}: its maps": lambda: open(f"/proc/{pid}/maps").read(),
        f"{name}: read its memory": lambda: touch_memory(SYS_PROCESS_VM_READV, pid),
        f"{name}: write its memory": lambda: touch_memory(SYS_PROCESS_VM_WRITEV, pid),
        f"{name}: ptrace": lambda: checked(libc.ptrace(PTRACE_SEIZE, pid, None, None)),
        f"{name}: stop": lambda: os.kill(pid, signal.SIGSTOP),
        f"{name}: kill": lambda: os.kill(pid, signal.SIGKILL),
        f"{name}: its limits": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, 8)),
        f"{name}: its processors": lambda: os.sched_setaffinity(pid, {0}),
    }


def opened_by_the_owner(fd):
    """The owner may change the mode, and open what it likes; what it can do then is the seals' affair."""
    os.chmod(f"/proc/self/fd/{fd}", 0o600)
    return os.open(f"/proc/self/fd/{fd}", os.O_RDWR)


def main():
    socket, spec, *pids = sys.argv[1:]
    client = RawClient(socket)
    try:
        _, parts = client.open(json.loads(spec))
    except Refused as refused:
        sys.exit(f"refused: {refused}")
    attempts = {"batches: map to read": lambda: map_shared(parts[BATCHES], mmap.PROT_READ)}
    attempts |= with_file(parts[BATCHES], "batches") | with_file(parts[RETURNS], "returns")
    for number, pid in enumerate(pids):
        attempts |= with_process(int(pid), "daemon" if number == 0 else "worker")
    attempts["socket: change its mode"] = lambda: os.chmod(socket, 0o777)
    results = {name: outcome(attempt) for name, attempt in attempts.items()}
    if os.fstat(parts[BATCHES]).st_uid == os.getuid():
        mine = opened_by_the_owner(parts[BATCHES])
        results |= {name: outcome(attempt) for name, attempt in with_file(mine, "owner's").items()}
    client.close()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
