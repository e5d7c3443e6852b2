// Samples of one stream that wait for the same thing: a queue per lane, each in plan order.
//
// Used for samples whose cost is known and that wait for memory (Admission), and for runnable ones that wait
// for a worker (Scheduler). Owned by the conductor thread. Nothing can fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>

#include "daemon/predict/predictor.h"

namespace sl {

// A sample that waits. Ordered by its place in the plan.
struct Runnable {
    std::uint64_t step = 0;  // batches before its batch since epoch 0
    std::uint32_t row = 0;
    std::uint32_t task = 0;  // the conductor's name for it
    double predicted_ns = 0;

    bool operator<(const Runnable& other) const {
        if (step != other.step) return step < other.step;
        if (row != other.row) return row < other.row;
        return task < other.task;
    }
};

class LaneQueue {
  public:
    using Lanes = std::array<std::set<Runnable>, kLanes>;

    void add(Lane lane, const Runnable& runnable) { lanes_[index(lane)].insert(runnable); }
    void remove(Lane lane, const Runnable& runnable) { lanes_[index(lane)].erase(runnable); }

    [[nodiscard]] const std::set<Runnable>& lane(Lane lane) const { return lanes_[index(lane)]; }
    [[nodiscard]] const Runnable* head(Lane lane) const {
        const auto& queue = lanes_[index(lane)];
        return queue.empty() ? nullptr : &*queue.begin();
    }
    [[nodiscard]] std::size_t size(Lane lane) const { return lanes_[index(lane)].size(); }
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] bool empty() const;

  private:
    static std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }
    Lanes lanes_;
};

}  // namespace sl
