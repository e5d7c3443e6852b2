// See plain_calls.h.
#include "io/plain_calls.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <thread>

#include "io/test_hooks.h"
#include "io/unsafe_files.h"

namespace sl {

namespace {

int error_of_kind(mode_t mode) {
    if (S_ISREG(mode)) return 0;
    return S_ISDIR(mode) ? EISDIR : EINVAL;
}

// A descriptor or a negative errno.
int open_once(const OpenRequest& request) {
    if (request.reach) return request.reach->open(request.path, kOpenFlags);
    const int result = ::open(request.path, kOpenFlags);
    return result < 0 ? -errno : result;
}

// Whoever is not the daemon's own user has its files opened here whatever the back end: only reads may go to
// io_uring.
Opened finish(const OpenRequest& request, int result) {
    Opened opened = finish_open(request.tag, result);
    const ReadCompletion& completion = opened.completion;
    if (request.reach && completion.error == 0 && !request.mount.may_hang)
        opened.completion.blocking_only = is_on_fuse(completion.fd);
    return opened;
}

}  // namespace

Opened finish_open(std::uint64_t tag, int result) {
    Opened opened;
    ReadCompletion& completion = opened.completion;
    completion.tag = tag;
    completion.is_open = true;
    if (result < 0) {
        // What open says of sockets, and of device nodes without a device.
        bool special = result == -ENXIO || result == -ENODEV;
        completion.error = special ? EINVAL : -result;
        return opened;
    }
    struct stat status = {};
    completion.error = ::fstat(result, &status) < 0 ? errno : error_of_kind(status.st_mode);
    // O_NONBLOCK has done its work. Left on, io_uring reads of file systems that cannot answer without
    // waiting (some network mounts) may end in EAGAIN.
    if (completion.error == 0 && ::fcntl(result, F_SETFL, 0) < 0) completion.error = errno;
    if (completion.error != 0) {
        ::close(result);
        return opened;
    }
    completion.fd = result;
    completion.size = static_cast<std::uint64_t>(status.st_size);
    completion.mtime_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    opened.device = status.st_dev;
    return opened;
}

bool valid_range(const ReadRequest& request) {
    constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return request.offset <= kLimit && request.length <= kLimit - request.offset;
}

Opened plain_open(const OpenRequest& request, RetryBudget budget) {
    while (true) {
        int result = open_once(request);
        if (result >= 0) return finish(request, result);
        int error = -result;
        auto delay = budget.next(error);
        if (!delay) return finish_open(request.tag, -error);
        std::this_thread::sleep_for(*delay);
    }
}

ReadCompletion plain_read(const ReadRequest& request, RetryBudget budget) {
    ReadCompletion completion;
    completion.tag = request.tag;
    if (!valid_range(request)) {
        completion.error = EINVAL;
        return completion;
    }
    while (completion.bytes < request.length) {
        auto wanted = std::min(request.length - completion.bytes, kMaxBytesPerCall);
        auto got = ::pread(request.fd, request.destination + completion.bytes, test_hooks::limit_read(wanted),
                           static_cast<off_t>(request.offset + completion.bytes));
        got = test_hooks::read_result(got < 0 ? -errno : got);
        if (got == 0) break;  // the file ends here: fewer bytes, no error
        if (got > 0) {
            completion.bytes += static_cast<std::uint64_t>(got);
            budget.refill();
            continue;
        }
        auto delay = budget.next(static_cast<int>(-got));
        if (!delay) {
            completion.error = static_cast<int>(-got);
            break;
        }
        std::this_thread::sleep_for(*delay);
    }
    return completion;
}

}  // namespace sl
