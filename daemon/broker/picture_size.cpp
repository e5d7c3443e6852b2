#include "daemon/broker/picture_size.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

#include "shm/fd.h"

extern char** environ;

namespace sl {

namespace {

constexpr std::uint64_t kTries = 16;
constexpr std::chrono::seconds kPatience{20};  // for one header, on a slow disk
constexpr std::size_t kLongestAnswer = 4096;   // of a process that may have been taken over
constexpr off_t kLargestFile = 1 << 28;        // it is read as a whole

// What comes out of `pipe` until its writer ends; nothing if that takes longer, or is longer, than the
// limits.
std::optional<std::string> read_all(int pipe) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + kPatience;
    std::string text;
    char buffer[512];
    while (true) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        pollfd entry{pipe, POLLIN, 0};
        if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) == 0) return std::nullopt;
        ssize_t got = ::read(pipe, buffer, sizeof buffer);
        if (got == 0) return text;
        if (got < 0 && errno != EINTR && errno != EAGAIN) return text;
        if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
        if (text.size() > kLongestAnswer) return std::nullopt;
    }
}

// Runs `program --size` with `file` as its input and returns what it printed.
Result<std::string> ask(const WorkerProgram& program, int file) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return std::unexpected(os_error(Status::kInternal, "pipe", errno));
    UniqueFd answer(ends[0]);
    UniqueFd theirs(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    char option[] = "--size";
    char no_sandbox[] = "--no-sandbox";
    char* arguments[] = {const_cast<char*>(program.path.c_str()), option,
                         program.sandbox ? nullptr : no_sandbox, nullptr};
    pid_t pid = -1;
    int error = ::posix_spawn(&pid, program.path.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return std::unexpected(os_error(Status::kInternal, "cannot start " + program.path, error));
    theirs.reset();
    auto text = read_all(answer.get());
    ::kill(pid, SIGKILL);  // it has answered, or never will: closing its output is not to end
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return text.value_or("its header takes too long to read");
}

}  // namespace

Result<PictureSize> first_picture_size(const WorkerProgram& worker_program, const Dataset& dataset) {
    std::string path;
    std::string reason;
    const Sequence in_order = dataset.sequence(0, 0, false);
    for (std::uint64_t position = 0; position < std::min(in_order.size(), kTries); ++position) {
        dataset.path(in_order.id_at(position), path);
        const auto& reach = dataset.reach(in_order.id_at(position));
        constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
        UniqueFd file(reach ? reach->open(path.c_str(), kFlags) : ::open(path.c_str(), kFlags));
        if (!file) {
            reason = reach ? std::strerror(-file.get()) : std::strerror(errno);
            continue;
        }
        struct stat status = {};
        if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kLargestFile) {
            reason = "it is no file, or too large to look at for its size";
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
