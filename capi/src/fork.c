/* Whose handle is it? A handle remembers the process that made it. In a forked child every call is refused
 * before it touches a lock or shared memory: the child never takes its parent's batches, and a lock that
 * another thread held at the fork is never waited for.
 *
 * getpid is asked every time instead of a pthread_atfork handler: it also notices children made by clone, and
 * it costs about 0.1 microseconds. */
#include <unistd.h>

#include "internal.h"

sl_status sl_check_owner(pid_t pid) {
    pid_t here = getpid();
    if (pid == here) return SL_OK;
    return sl_fail(
        SL_E_FORKED, 0,
        "this handle belongs to process %d, and this is process %d: after a fork call sl_connect anew",
        (int)pid, (int)here);
}
