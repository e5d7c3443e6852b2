#include "daemon/broker/picture_size.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "shm/fd.h"

extern char** environ;

namespace sl {

namespace {

constexpr std::uint64_t kTries = 16;

// Runs `program --size` with `file` as its input and returns what it printed.
Result<std::string> ask(const std::string& program, int file) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(os_error(Status::kInternal, "pipe", errno));
    UniqueFd answer(ends[0]);
    UniqueFd theirs(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    char option[] = "--size";
    char* arguments[] = {const_cast<char*>(program.c_str()), option, nullptr};
    pid_t pid = -1;
    int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return std::unexpected(os_error(Status::kInternal, "cannot start " + program, error));
    theirs.reset();
    std::string text;
    char buffer[512];
    for (ssize_t got = 0; (got = ::read(answer.get(), buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<std::size_t>(got));
    }
    ::waitpid(pid, nullptr, 0);
    return text;
}

}  // namespace

Result<PictureSize> first_picture_size(const std::string& worker_program, const Dataset& dataset) {
    std::string path;
    std::string reason;
    for (std::uint64_t id = 0; id < std::min(dataset.size(), kTries); ++id) {
        dataset.path(id, path);
        UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        if (!file) {
            reason = std::strerror(errno);
            continue;
        }
        auto answer = ask(worker_program, file.get());
        if (!answer) return std::unexpected(answer.error());
        PictureSize size;
        if (std::sscanf(answer->c_str(), "%u x %u", &size.width, &size.height) == 2) return size;
        reason = *answer;
    }
    return fail(
        Status::kDataset,
        "the pipeline sets no size and the first pictures cannot be read; the last, " + path + ": " + reason);
}

}  // namespace sl
