#include "daemon/assemble/copy_row.h"

#include <algorithm>
#include <cstring>

namespace sl {

namespace {

void zero_row(const CopyTarget& target) {
    for (const CopyPlan::Field& field : target.plan->fields)
        std::memset(target.slot + field.to + target.row * field.bytes, 0, field.bytes);
}

std::uint64_t payload_of(const std::uint8_t* sample, std::uint64_t capacity) {
    const auto* header = reinterpret_cast<const sl_shm_item_header*>(sample);
    return std::min(sl_shm_load_relaxed_u64(&header->payload_bytes), capacity);
}

}  // namespace

void copy_row(const std::uint8_t* sample, const CopyTarget& target) {
    const CopyPlan& plan = *target.plan;
    std::uint64_t length = 0;
    if (sample == nullptr) {
        zero_row(target);
    } else {
        if (plan.opaque) length = payload_of(sample, plan.capacity);
        for (const CopyPlan::Field& field : plan.fields) {
            std::memcpy(target.slot + field.to + target.row * field.bytes, sample + field.from,
                        plan.opaque ? length : field.bytes);
        }
    }
    if (plan.opaque) {
        std::memcpy(target.slot + plan.lengths + target.row * sizeof length, &length, sizeof length);
    }
}

}  // namespace sl
