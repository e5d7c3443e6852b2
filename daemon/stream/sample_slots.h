// Slots of a stream's sample segment: each lane has its own, and the batch that is due has a reserve.
//
// Owned by the conductor thread. The reserve (one batch) is what makes strict order safe: samples of later
// batches can fill their lanes to the brim, and the members of the batch that everybody waits for still find
// a slot, so the stream can always go on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/predict/predictor.h"
#include "shm/segment.h"

namespace sl {

struct SlotCounts {
    std::array<std::uint32_t, kLanes> lanes{};
    std::uint32_t reserve = 0;
    [[nodiscard]] std::uint32_t total() const { return lanes[0] + lanes[1] + lanes[2] + reserve; }
};

class SampleSlots {
  public:
    SampleSlots() = default;
    SampleSlots(Segment segment, std::uint64_t slot_bytes, const SlotCounts& counts);

    // A slot of the lane; if it has none and the sample is due, one of the reserve, and then any: samples
    // that are late in `ready` order can be more than the reserve holds.
    std::optional<std::uint32_t> acquire(Lane lane, bool due);
    void release(std::uint32_t slot);

    // The segment, for whoever looks after it; the slots are nothing afterwards.
    [[nodiscard]] Segment give_up() { return std::move(segment_); }

    [[nodiscard]] std::uint64_t offset(std::uint32_t slot) const { return slot * slot_bytes_; }
    [[nodiscard]] const std::uint8_t* data(std::uint32_t slot) const;
    [[nodiscard]] const Segment& segment() const { return segment_; }
    [[nodiscard]] std::uint32_t held(Lane lane) const;
    [[nodiscard]] std::uint32_t capacity(Lane lane) const {
        return counts_.lanes[static_cast<std::size_t>(lane)];
    }

  private:
    [[nodiscard]] std::size_t owner(std::uint32_t slot) const;  // lane index, or kLanes for the reserve

    Segment segment_;
    std::uint64_t slot_bytes_ = 0;
    SlotCounts counts_;
    std::array<std::vector<std::uint32_t>, kLanes + 1> free_;
};

}  // namespace sl
