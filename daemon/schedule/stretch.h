// How much longer samples take than the processor time they cost: other programs, and the daemon itself, want
// the same cores.
//
// Sums of both over the samples that have ended, forgotten in time, so long samples count for as much as they
// take. One thread; nothing can fail.
#pragma once

#include <algorithm>

namespace sl {

class Stretch {
  public:
    explicit Stretch(double guess) : cost_ns_(kGuessNs), elapsed_ns_(guess * kGuessNs) {}

    void observe(double cost_ns, double elapsed_ns) {
        if (cost_ns <= 0) return;
        cost_ns_ += cost_ns;
        // A clock that was read at an odd moment says less than nothing.
        elapsed_ns_ += std::clamp(elapsed_ns, cost_ns, kMost * cost_ns);
        if (cost_ns_ <= kWindowNs) return;
        const double keep = kWindowNs / cost_ns_;
        cost_ns_ *= keep;
        elapsed_ns_ *= keep;
    }
    [[nodiscard]] double factor() const { return elapsed_ns_ / cost_ns_; }

  private:
    static constexpr double kGuessNs = 1e8;  // how much processor time the first guess weighs
    static constexpr double kWindowNs = 10e9;
    static constexpr double kMost = 64;

    double cost_ns_;
    double elapsed_ns_;
};

}  // namespace sl
