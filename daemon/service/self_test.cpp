// See self_test.h.
#include "daemon/service/self_test.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "io/reader.h"
#include "shm/segment.h"

extern char** environ;

namespace sl {

namespace {

bool report(const char* what, const Result<std::string>& found) {
    std::printf("%-6s%-16s%s\n", found ? "ok" : "FAIL", what,
                found ? found->c_str() : found.error().message.c_str());
    std::fflush(stdout);  // before the child's lines
    return found.has_value();
}

// What each client relies on, tried from a client's side: by the descriptor that it would be sent.
Result<std::string> sealed_memory() {
    constexpr std::uint64_t kBytes = 1 << 20;
    auto segment = Segment::create("speedyloader-self-test", kBytes);
    if (!segment) return std::unexpected(std::move(segment).error());
    if (auto sealed = segment->seal_against_writers(); !sealed) return std::unexpected(sealed.error());
    auto theirs = segment->read_only_fd();
    if (!theirs) return std::unexpected(std::move(theirs).error());
    void* map = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs->get(), 0);
    if (map != MAP_FAILED) return fail(Status::kInternal, "a client could map it for writing");
    map = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->writable_fd(), 0);
    if (map != MAP_FAILED) return fail(Status::kInternal, "the kernel does not keep seals against writers");
    if (::ftruncate(segment->writable_fd(), 0) == 0)
        return fail(Status::kInternal, "the kernel does not keep seals against shrinking");
    map = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, theirs->get(), 0);
    if (map == MAP_FAILED) return std::unexpected(os_error(Status::kInternal, "cannot map it", errno));
    segment->data()[0] = std::byte{42};
    const bool same = *static_cast<const std::byte*>(map) == std::byte{42};
    ::munmap(map, kBytes);
    if (!same) return fail(Status::kInternal, "a client does not see what the daemon writes");
    return "sealed: a client sees what the daemon writes, and cannot write or resize it";
}

// A machine that refuses io_uring is served by threads: no failure, but somebody will want to know.
Result<std::string> io_uring() {
    auto reader = make_reader({.backend = ReaderBackend::kUring}, nullptr);
    if (reader) return (*reader)->description();
    return "refused, threads read instead: " + reader.error().message;
}

Result<int> run(const std::string& program, const std::string& daemon) {
    std::string words[] = {program, "self-test", "--daemon", daemon};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    pid_t pid = -1;
    if (int error = ::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ); error != 0)
        return std::unexpected(os_error(Status::kInternal, "cannot start " + program, error));
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return std::unexpected(os_error(Status::kInternal, "waitpid", errno));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int self_test(const std::string& folder) {
    bool good = report("shared memory", sealed_memory());
    good = report("io_uring", io_uring()) && good;
    auto streamed = run(folder + "/speedyctl", folder + "/speedyloaderd");
    if (!streamed) return report("client", std::unexpected(streamed.error())) ? 0 : 1;
    return good && *streamed == 0 ? 0 : 1;
}

}  // namespace sl
