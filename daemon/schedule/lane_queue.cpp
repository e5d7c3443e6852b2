#include "daemon/schedule/lane_queue.h"

#include <algorithm>

namespace sl {

std::size_t LaneQueue::size() const {
    return lanes_[0].size() + lanes_[1].size() + lanes_[2].size();
}

bool LaneQueue::empty() const {
    return std::ranges::all_of(lanes_, [](const auto& queue) { return queue.empty(); });
}

}  // namespace sl
