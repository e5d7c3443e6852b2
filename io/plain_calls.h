// Open and read by ordinary, blocking system calls, and the checks every back end shares.
//
// The thread back end calls plain_open and plain_read from its pool; the io_uring back end uses finish_open
// and valid_range for every request, and the plain calls only where no thread can be had. No state: safe from
// any thread. Errors are errno values in the completion.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "io/reader.h"
#include "io/retry_policy.h"

namespace sl {

// One system call moves at most 2,147,479,552 bytes; 1 GiB keeps pieces aligned and below that.
inline constexpr std::uint64_t kMaxBytesPerCall = std::uint64_t{1} << 30;

// Non-blocking, so that a FIFO without a writer or a serial line never holds the opener.
inline constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

struct Opened {
    ReadCompletion completion;
    dev_t device = 0;  // where the file is, when it was opened
};

// The answer to an open whose system call returned `result` (a descriptor, or a negative errno): asks fstat,
// and closes what is no regular file.
Opened finish_open(std::uint64_t tag, int result);

// False when the range does not fit a signed 64-bit file offset: such a read completes with EINVAL. (io_uring
// would take offset -1 for "the current position".)
bool valid_range(const ReadRequest& request);

// One try, which never sleeps.
struct Tried {
    ReadCompletion completion;
    std::optional<std::chrono::microseconds> again = {};  // not answered yet: to be tried again so much later
};

Tried plain_open(const OpenRequest& request, RetryBudget& budget);
// Goes on behind the first `done` bytes, which earlier tries have read; the completion's bytes are of all.
Tried plain_read(const ReadRequest& request, std::uint64_t done, RetryBudget& budget);

}  // namespace sl
