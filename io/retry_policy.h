// Which errors of open and read are asked again, how often, and after how long. The one place that decides
// it, for both back ends. Plain values, no thread safety needed: each operation has its own.
//
// EINTR, EAGAIN and ETIMEDOUT pass by themselves: 10 more tries, 0.25 ms apart at first, doubling up to 50 ms
// (0.2 s in all). EIO gets one more try: passing faults of network mounts show as EIO, bad disks stay bad.
// ESTALE is final here: it needs a new descriptor, and only the caller knows the path.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

namespace sl {

class RetryBudget {
  public:
    static constexpr unsigned kMaxRetries = 10;
    static constexpr unsigned kMaxIoRetries = 1;

    // How long to wait before the next try; nothing when the error is final. Counts one try.
    std::optional<std::chrono::microseconds> next(int error) {
        using std::chrono::microseconds;
        unsigned allowed = 0;
        if (error == EINTR || error == EAGAIN || error == ETIMEDOUT) allowed = kMaxRetries;
        if (error == EIO) allowed = kMaxIoRetries;
        if (used_ >= allowed) return std::nullopt;
        return std::min(microseconds(250) * (1U << used_++), microseconds(50'000));
    }

    // Bytes came: what failed before is over.
    void refill() { used_ = 0; }

  private:
    unsigned used_ = 0;
};

}  // namespace sl
