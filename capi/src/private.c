/* This user's private daemon: its address, and who starts it.
 *
 * The address is an abstract socket name made of uid, mount and PID name space, so that containers do not
 * meet by accident and nothing is left in a file system. Whoever finds nobody there binds the name itself and
 * hands the listening socket to a new daemon: binding is the lock (one winner), and callers queue in its
 * backlog until the daemon is up, so nobody polls for readiness. Any thread, any number of processes at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

enum { SL_BACKLOG = 128, SL_RETRY_MS = 2, SL_ATTEMPTS = 2000, SL_SUFFIX_MAX = 40, SL_FIRST_FREE_FD = 10 };

static unsigned long long inode(const char* path) {
    struct stat info;
    return stat(path, &info) == 0 ? (unsigned long long)info.st_ino : 0;
}

sl_status sl_private_place(sl_place* made) {
    const char* suffix = secure_getenv("SPEEDYLOADER_PRIVATE_NAME");
    if (suffix == NULL) suffix = "";
    if (strlen(suffix) > SL_SUFFIX_MAX) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "SPEEDYLOADER_PRIVATE_NAME has more than %d characters",
                       SL_SUFFIX_MAX);
    }
    memset(made, 0, sizeof *made);
    made->is_private = true;
    int length = snprintf(made->name + 1, sizeof made->name - 1, "speedyloader-%u-%llu-%llu%s%s",
                          (unsigned)geteuid(), inode("/proc/self/ns/mnt"), inode("/proc/self/ns/pid"),
                          suffix[0] == '\0' ? "" : "-", suffix);
    made->bytes = (size_t)length + 1;
    snprintf(made->where, sizeof made->where, "the private daemon (@%s)", made->name + 1);
    return SL_OK;
}

/* Anybody may bind an abstract name. The socket's credentials are those of whoever called listen. */
static sl_status check_peer(int fd, const sl_place* place) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
        return sl_fail(SL_E_IO, errno, "cannot tell who answers at @%s", place->name + 1);
    }
    if (peer.uid == geteuid() || peer.uid == 0) return SL_OK;
    return sl_fail(SL_E_DENIED, 0, "the socket @%s belongs to user %u, not to user %u", place->name + 1,
                   (unsigned)peer.uid, (unsigned)geteuid());
}

/* A listening socket on the address: 0, or -EADDRINUSE if somebody was faster. */
static int listen_at(const sl_place* place, int* fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, place->name, place->bytes);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + place->bytes);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made >= 0 && made < SL_FIRST_FREE_FD) {
        /* Out of the way of the standard descriptors, which spawn.c is going to set. */
        int moved = fcntl(made, F_DUPFD_CLOEXEC, SL_FIRST_FREE_FD);
        int error = errno;
        close(made);
        errno = error;
        made = moved;
    }
    if (made < 0) return -errno;
    if (bind(made, (const struct sockaddr*)&address, bytes) != 0 || listen(made, SL_BACKLOG) != 0) {
        int error = errno;
        close(made);
        return -error;
    }
    *fd = made;
    return 0;
}

/* Starts a daemon on the address: *child is the process to reap; 0 if somebody else is at it. */
static sl_status start(const sl_place* place, pid_t* child) {
    int listener = -1;
    *child = 0;
    int error = listen_at(place, &listener);
    if (error == -EADDRINUSE) return SL_OK;
    if (error != 0) return sl_fail(SL_E_IO, -error, "cannot listen at @%s", place->name + 1);
    sl_status status = sl_spawn_daemon(listener, child);
    close(listener);
    return status;
}

static sl_status greet(int fd, const sl_place* place, const char* program, uint32_t role, sl_time deadline,
                       sl_client** client) {
    sl_client* made = NULL;
    sl_status status = sl_client_new(fd, place->where, &made);
    if (status != SL_OK) return status;
    status = sl_client_hello(made, program, role, deadline);
    if (status != SL_OK) {
        sl_client_drop(made);
        return status;
    }
    *client = made;
    return SL_OK;
}

static sl_status died_at_start(int exit_status) {
    const char* log = secure_getenv("SPEEDYLOADER_LOG");
    char how[48] = "";
    if (exit_status > 0) snprintf(how, sizeof how, " with status %d", exit_status);
    if (log != NULL) {
        return sl_fail(SL_E_NO_DAEMON, 0, "the private daemon ended at its start%s; its messages are in %s",
                       how, log);
    }
    return sl_fail(SL_E_NO_DAEMON, 0,
                   "the private daemon ended at its start%s; set SPEEDYLOADER_LOG to a file to see why", how);
}

static sl_status nobody(const sl_place* place, int error) {
    return sl_fail(SL_E_NO_DAEMON, error, "no private daemon answers at @%s (user %u)", place->name + 1,
                   (unsigned)geteuid());
}

/* The first process of a spawned daemon only forks and leaves; it is reaped here, so that the host program
 * never meets a child it did not start. */
sl_status sl_start_ended(pid_t child, sl_status status) {
    int exit_status = sl_spawn_reap(child, status != SL_OK);
    return status == SL_E_DISCONNECTED ? died_at_start(exit_status) : status;
}

sl_status sl_private_dial(const sl_place* place, uint32_t flags, sl_time deadline, int* fd, pid_t* child) {
    for (;;) {
        int error = sl_socket_connect(place->name, place->bytes, deadline, fd);
        if (error == 0) {
            sl_status status = check_peer(*fd, place);
            if (status != SL_OK) close(*fd);
            return status;
        }
        if (error != -ECONNREFUSED) {
            return sl_fail(error == -ETIMEDOUT ? SL_TIMEOUT : SL_E_NO_DAEMON, -error, "cannot reach @%s",
                           place->name + 1);
        }
        if ((flags & SL_CONNECT_NO_SPAWN) != 0) return nobody(place, -error);
        if (*child > 0) return SL_E_DISCONNECTED; /* our daemon has closed its socket already */
        sl_status status = start(place, child);
        if (status != SL_OK) return status;
        if (*child == 0) return SL_NOT_READY; /* another process is between bind and listen */
    }
}

sl_status sl_private_connect(const sl_place* place, uint32_t flags, const char* program, uint32_t role,
                             sl_time deadline, sl_client** client) {
    sl_status status = SL_NOT_READY;
    pid_t child = 0;
    for (int attempt = 0; status == SL_NOT_READY && attempt < SL_ATTEMPTS; attempt++) {
        int fd = -1;
        status = sl_private_dial(place, flags, deadline, &fd, &child);
        if (status == SL_OK) {
            status = greet(fd, place, program, role, deadline, client);
            if (status != SL_E_DISCONNECTED || child > 0) break;
            status = SL_NOT_READY; /* it was just leaving, after its last client: the name is free again */
        }
        if (status != SL_NOT_READY) break;
        if (sl_now() >= deadline) break;
        poll(NULL, 0, SL_RETRY_MS);
    }
    if (child > 0) return sl_start_ended(child, status);
    return status == SL_NOT_READY ? nobody(place, 0) : status;
}
