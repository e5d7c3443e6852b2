// The consumer's time a batch, and when it will want a later one.
//
// Only an interval in which the consumer did not have to wait shows its own pace; one in which it waited
// shows ours, and bounds its pace from above. While nothing is known the pace is 0: as fast as can be. A
// pause (a validation, a checkpoint) counts as a few steps. One thread; time is an input.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sl {

class StepTime {
  public:
    void taken(std::uint64_t step, bool waited, std::uint64_t now_ns) {
        if (known_ && step <= taken_) return;
        if (known_) learn(static_cast<double>(now_ns - at_ns_) / static_cast<double>(step - taken_), waited);
        known_ = true;
        taken_ = step;
        at_ns_ = now_ns;
    }
    // From now until the consumer wants batch `step`; 0 while nothing is known.
    [[nodiscard]] double until(std::uint64_t step, std::uint64_t now_ns) const {
        if (step_ns_ <= 0) return 0;
        const double rest = std::max(step_ns_ - static_cast<double>(now_ns - at_ns_), 0.0);
        return rest + static_cast<double>(static_cast<std::int64_t>(step - taken_)) * step_ns_;
    }
    [[nodiscard]] double step_ns() const { return step_ns_; }
    // The first step that it has not taken, where its pace is known.
    [[nodiscard]] std::uint64_t taken() const { return taken_; }
    // Whether it goes on taking, as far as can be seen; its step is taken for `usual_ns` if that is longer.
    [[nodiscard]] bool takes(double usual_ns, std::uint64_t now_ns) const {
        return known_ && static_cast<double>(now_ns - at_ns_) <= kPause * std::max(step_ns_, usual_ns);
    }

  private:
    static constexpr double kRate = 0.2;
    static constexpr double kPause = 4;

    void learn(double interval_ns, bool waited) {
        if (waited) {
            step_ns_ = std::min(step_ns_, interval_ns);
        } else if (step_ns_ <= 0) {
            step_ns_ = interval_ns;
        } else {
            step_ns_ += kRate * (std::min(interval_ns, kPause * step_ns_) - step_ns_);
        }
    }

    bool known_ = false;
    std::uint64_t taken_ = 0;
    std::uint64_t at_ns_ = 0;
    double step_ns_ = 0;
};

}  // namespace sl
