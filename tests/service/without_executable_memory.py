"""without_executable_memory.py PROGRAM [ARGUMENT ...]: runs a program for which MemoryDenyWriteExecute holds.

With the kernel's own switch for it, which children inherit; exit status 77 where the kernel has none.
"""

import ctypes
import os
import sys

PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1

if ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) != 0:
    sys.exit(77)
os.execvp(sys.argv[1], sys.argv[1:])
