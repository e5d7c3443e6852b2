#include "daemon/stream/sample_slots.h"

#include <algorithm>

namespace sl {

SampleSlots::SampleSlots(Segment segment, std::uint64_t slot_bytes, const SlotCounts& counts)
    : segment_(std::move(segment)), slot_bytes_(slot_bytes), counts_(counts) {
    for (std::uint32_t slot = counts.total(); slot-- > 0;)
        free_[owner(slot)].push_back(slot);
}

std::size_t SampleSlots::owner(std::uint32_t slot) const {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (slot < counts_.lanes[lane]) return lane;
        slot -= counts_.lanes[lane];
    }
    return kLanes;
}

std::optional<std::uint32_t> SampleSlots::acquire(Lane lane, bool due) {
    // Last returned, first reused: its pages are still in the cache.
    auto* pool = &free_[static_cast<std::size_t>(lane)];
    if (pool->empty() && due) pool = &free_[kLanes];
    if (pool->empty() && due)
        pool = &*std::ranges::max_element(free_, {}, [](auto& one) { return one.size(); });
    if (pool->empty()) return std::nullopt;
    std::uint32_t slot = pool->back();
    pool->pop_back();
    return slot;
}

void SampleSlots::release(std::uint32_t slot) {
    free_[owner(slot)].push_back(slot);
}

const std::uint8_t* SampleSlots::data(std::uint32_t slot) const {
    return reinterpret_cast<const std::uint8_t*>(segment_.data() + offset(slot));
}

std::uint32_t SampleSlots::held(Lane lane) const {
    auto index = static_cast<std::size_t>(lane);
    return counts_.lanes[index] - static_cast<std::uint32_t>(free_[index].size());
}

}  // namespace sl
