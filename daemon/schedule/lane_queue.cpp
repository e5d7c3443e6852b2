#include "daemon/schedule/lane_queue.h"

#include <algorithm>

namespace sl {

bool LaneQueue::empty() const {
    return std::ranges::all_of(lanes_, [](const auto& queue) { return queue.empty(); });
}

}  // namespace sl
