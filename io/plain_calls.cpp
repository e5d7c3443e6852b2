// See plain_calls.h.
#include "io/plain_calls.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

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

// Whoever is not the daemon's own user has its files opened here whatever the back end: only reads may go to
// io_uring.
Tried plain_open(const OpenRequest& request, RetryBudget& budget) {
    const int result = open_once(request);
    Tried tried{finish_open(request.tag, result).completion};
    if (result < 0) tried.again = budget.next(-result);
    if (tried.completion.error == 0 && !request.mount.may_hang)
        tried.completion.blocking_only = is_on_fuse(tried.completion.fd);
    return tried;
}

Tried plain_read(const ReadRequest& request, std::uint64_t done, RetryBudget& budget) {
    Tried tried;
    ReadCompletion& completion = tried.completion;
    completion.tag = request.tag;
    completion.bytes = done;
    if (!valid_range(request)) {
        completion.error = EINVAL;
        return tried;
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
        completion.error = static_cast<int>(-got);
        tried.again = budget.next(completion.error);
        break;
    }
    return tried;
}

}  // namespace sl
