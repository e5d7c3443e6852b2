"""without_uring.py PROGRAM [ARGUMENT ...]: runs a program for which every io_uring call answers EPERM.

As containers do it: a seccomp filter of five instructions over the system call's number (URG-01).
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
FIRST, LAST = 425, 427  # io_uring_setup, io_uring_enter, io_uring_register
EPERM = 1
LOAD_WORD, JUMP_GE, JUMP_GT, RETURN = 0x20, 0x35, 0x25, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

FILTER = [(LOAD_WORD, 0, 0, 0), (JUMP_GE, 0, 2, FIRST), (JUMP_GT, 1, 0, LAST), (RETURN, 0, 0, ERRNO | EPERM),
          (RETURN, 0, 0, ALLOW)]


def forbid_uring():
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in FILTER)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(FILTER), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


if __name__ == "__main__":
    forbid_uring()
    os.execvp(sys.argv[1], sys.argv[1:])
