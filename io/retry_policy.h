// Which errors of open and read are asked again, how often, and after how long. The one place that decides
// it, for both back ends. Plain values, no thread safety needed: each operation has its own.
//
// EINTR, EAGAIN and ETIMEDOUT pass by themselves: asked again 0.25 ms later at first, then doubling up to
// 50 ms, until the deadline (ReaderOptions.retry_for, counted from the first of them). EIO gets one more try:
// passing faults of network mounts show as EIO, bad disks stay bad. ESTALE is final here: it needs a new
// descriptor, and only the caller knows the path.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

namespace sl {

class RetryBudget {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kRetryFor{5000};
    static constexpr unsigned kMaxIoRetries = 1;

    RetryBudget() = default;
    explicit RetryBudget(std::chrono::milliseconds retry_for) : retry_for_(retry_for) {}

    // How long to wait before the next try; nothing when the error is final. Counts one try.
    std::optional<std::chrono::microseconds> next(int error) {
        using std::chrono::microseconds;
        if (error == EIO) {
            if (used_ >= kMaxIoRetries) return std::nullopt;
        } else if (error == EINTR || error == EAGAIN || error == ETIMEDOUT) {
            auto now = Clock::now();
            if (first_ == Clock::time_point{}) first_ = now;
            if (now - first_ >= retry_for_) return std::nullopt;
        } else {
            return std::nullopt;
        }
        return std::min(microseconds(250) * (1U << std::min(used_++, 8U)), microseconds(50'000));
    }

    // Bytes came: what failed before is over.
    void refill() {
        used_ = 0;
        first_ = {};
    }

  private:
    std::chrono::milliseconds retry_for_ = kRetryFor;
    Clock::time_point first_;  // of the passing errors in a row; the epoch: none yet
    unsigned used_ = 0;
};

}  // namespace sl
