// The slowest samples of a stream, for the status: each id once, with its worst time.
//
// On the conductor's thread; cannot fail. Nearly every sample is told from the slowest by one comparison.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sl {

struct SlowSample {
    std::uint64_t sample_id = 0;
    std::uint64_t cpu_ns = 0;
    double predicted_ns = 0;
};

class Slowest {
  public:
    void add(const SlowSample& sample) {
        if (samples_.size() == kKept && sample.cpu_ns <= samples_.back().cpu_ns) return;
        auto known = std::ranges::find(samples_, sample.sample_id, &SlowSample::sample_id);
        if (known != samples_.end()) {
            if (known->cpu_ns < sample.cpu_ns) *known = sample;
        } else {
            if (samples_.size() == kKept) samples_.pop_back();
            samples_.push_back(sample);
        }
        std::ranges::sort(samples_, std::ranges::greater{}, &SlowSample::cpu_ns);
    }
    // The slowest first.
    [[nodiscard]] const std::vector<SlowSample>& samples() const { return samples_; }

    static constexpr std::size_t kKept = 8;

  private:
    std::vector<SlowSample> samples_;
};

}  // namespace sl
