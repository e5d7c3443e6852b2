// Runs part of a test in a forked child, for promises that hold between processes.
//
// The child ends by _exit with what its function returns, so no atexit handler of the test runs twice. Call
// it while the test has one thread.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace sl {

// -1 if there is no child.
template <class Function>
pid_t start_child(Function function) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(function());
    return pid;
}

// The child's exit status, or 1000 + the signal that ended it, or -1.
inline int end_of_child(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

template <class Function>
int run_in_child(Function function) {
    return end_of_child(start_child(function));
}

}  // namespace sl
