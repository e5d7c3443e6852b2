/* Starting speedyloaderd as a private daemon: which program, with which descriptors, and its first process's
 * end.
 *
 * The daemon must not be a child of the host program (its wait calls would see it) nor of its session (a
 * Ctrl-C would reach it): posix_spawn with a new session, and --detach, whose first process forks and leaves
 * at once. Descriptors: 3 is the listening socket, 0 to 2 are /dev/null or the log, nothing else is passed
 * on. Any thread. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

enum { SL_DAEMON_LISTEN_FD = 3, SL_MAX_ARGUMENTS = 32, SL_REAP_MS = 500 };

extern char** environ;

/* The names tried, for the message if none will do. */
typedef struct search {
    char found[PATH_MAX];
    char tried[400];
} search;

/* Absolute, because the daemon starts in another folder. */
static bool try_program(search* found, const char* path) {
    if (access(path, X_OK) == 0 && realpath(path, found->found) != NULL) return true;
    size_t used = strlen(found->tried);
    snprintf(found->tried + used, sizeof found->tried - used, "%s%s", used > 0 ? ", " : "", path);
    return false;
}

static bool try_beside_library(search* found) {
    Dl_info info;
    if (dladdr((const void*)&sl_connect, &info) == 0 || info.dli_fname == NULL) return false;
    const char* slash = strrchr(info.dli_fname, '/');
    int length = slash == NULL ? 1 : (int)(slash - info.dli_fname);
    const char* folder = slash == NULL ? "." : info.dli_fname;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s/../bin/speedyloaderd", length, folder);
    if (try_program(found, path)) return true;
    /* A distribution's library lies one folder deeper, in lib/ARCHITECTURE. */
    snprintf(path, sizeof path, "%.*s/../../bin/speedyloaderd", length, folder);
    if (try_program(found, path)) return true;
    snprintf(path, sizeof path, "%.*s/speedyloaderd", length, folder);
    return try_program(found, path);
}

static bool try_path(search* found) {
    const char* folders = getenv("PATH");
    while (folders != NULL && *folders != '\0') {
        size_t length = strcspn(folders, ":");
        char path[PATH_MAX];
        int written = snprintf(path, sizeof path, "%.*s/speedyloaderd", (int)length, folders);
        if (length > 0 && written < (int)sizeof path && access(path, X_OK) == 0)
            return try_program(found, path);
        folders += length;
        if (*folders == ':') folders++;
    }
    size_t used = strlen(found->tried);
    snprintf(found->tried + used, sizeof found->tried - used, "%sspeedyloaderd on PATH",
             used > 0 ? ", " : "");
    return false;
}

static sl_status find_daemon(search* found) {
    found->found[0] = '\0';
    found->tried[0] = '\0';
    const char* named = secure_getenv("SPEEDYLOADER_DAEMON");
    if (named != NULL && named[0] != '\0') {
        if (try_program(found, named)) return SL_OK;
        return sl_fail(SL_E_NO_DAEMON, errno, "SPEEDYLOADER_DAEMON names %s, which cannot be run", named);
    }
    if (try_beside_library(found) || try_path(found)) return SL_OK;
    return sl_fail(SL_E_NO_DAEMON, 0, "no daemon runs and none can be started; tried: %s", found->tried);
}

/* Splits the additional arguments in place, at blanks. */
static sl_status split(char* words, char** argv, int used) {
    char* rest = NULL;
    for (char* word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (used == SL_MAX_ARGUMENTS - 1) {
            return sl_fail(SL_E_INVALID_ARGUMENT, 0, "SPEEDYLOADER_DAEMON_ARGS has too many words");
        }
        argv[used++] = word;
    }
    argv[used] = NULL;
    return SL_OK;
}

/* Files first, folder after: a relative log path means the caller's folder. */
static int set_files(posix_spawn_file_actions_t* files, int listen_fd) {
    const char* log = secure_getenv("SPEEDYLOADER_LOG");
    bool logged = log != NULL && log[0] != '\0';
    int error = posix_spawn_file_actions_adddup2(files, listen_fd, SL_DAEMON_LISTEN_FD);
    if (error == 0) error = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    if (error == 0) {
        error = posix_spawn_file_actions_addopen(files, 1, logged ? log : "/dev/null",
                                                 O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    if (error == 0) error = posix_spawn_file_actions_adddup2(files, 1, 2);
    if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(files, SL_DAEMON_LISTEN_FD + 1);
    if (error == 0) error = posix_spawn_file_actions_addchdir_np(files, "/");
    return error;
}

static int set_attributes(posix_spawnattr_t* attributes) {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    return posix_spawnattr_setflags(attributes,
                                    POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn(const char* program, char* const* argv, int listen_fd, pid_t* child) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&files);
    if (error != 0) return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_files(&files, listen_fd);
        if (error == 0) error = set_attributes(&attributes);
        if (error == 0) error = posix_spawn(child, program, &files, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

sl_status sl_spawn_daemon(int listen_fd, pid_t* child) {
    search program;
    sl_status status = find_daemon(&program);
    if (status != SL_OK) return status;
    char* argv[SL_MAX_ARGUMENTS] = {"speedyloaderd", "--private", "--listen-fd", "3", "--detach"};
    const char* given = secure_getenv("SPEEDYLOADER_DAEMON_ARGS");
    char* words = strdup(given != NULL ? given : "");
    if (words == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory to start a daemon");
    status = split(words, argv, 5);
    int error = status == SL_OK ? spawn(program.found, argv, listen_fd, child) : 0;
    free(words);
    if (error == 0) return status;
    *child = 0;
    return sl_fail(SL_E_NO_DAEMON, error, "cannot start %s (or open its log)", program.found);
}

/* Exit status of the first process, 0 if it is not known. It is given time to end by itself, and then made to
 * if the start has failed: while it has not been waited for, its number cannot belong to another process. */
int sl_spawn_reap(pid_t child, bool failed) {
    int status = 0;
    pid_t done = 0;
    for (int waited = 0; waited < SL_REAP_MS; waited++) {
        done = waitpid(child, &status, WNOHANG);
        if (done == child || (done < 0 && errno != EINTR))
            break; /* the host program may wait for every child */
        poll(NULL, 0, 1);
    }
    if (done == 0 && failed && kill(child, SIGKILL) == 0) done = waitpid(child, &status, 0);
    return done == child && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
