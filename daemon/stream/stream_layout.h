// The sizes of a stream's shared memory, computed from its spec before anything is reserved.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/plan/spec.h"
#include "daemon/stream/sample_slots.h"
#include "shm/layout.h"

namespace sl {

struct StreamLayout {
    // image, label, sample_id, valid [, crop_box, flip]; of items: each row's, [item_bytes,] sample_id, valid
    // [, collated, collated_bytes]
    std::vector<sl_shm_tensor> tensors;
    std::uint32_t batch_size = 0;
    std::uint32_t slot_count = 0;
    std::uint32_t ring_capacity = 0;
    std::uint64_t slot_bytes = 0;
    std::uint64_t ring_offset = 0;
    std::uint64_t words_offset = 0;
    std::uint64_t info_offset = 0;
    std::uint64_t slots_offset = 0;
    std::uint64_t segment_bytes = 0;
    std::uint64_t image_row_bytes = 0;
    std::size_t sample_id_tensor = 0;  // index; valid is the next

    SlotCounts sample_slots;
    std::uint64_t sample_slot_bytes = 0;

    sl_shm_item_layout items{};  // of a stream of items: what its guests are told
    // Index, where guests collate; collated_bytes is the next.
    [[nodiscard]] std::size_t collated_tensor() const { return sample_id_tensor + 2; }
    [[nodiscard]] bool guests_write() const { return items.batch_slots != 0; }

    [[nodiscard]] std::uint64_t sample_segment_bytes() const {
        return sample_slots.total() * sample_slot_bytes;
    }
};

// `slots`: batch slots wanted by the client, 0 to choose. kInvalidArgument if there are too many.
// `workers`: of the daemon.
Result<StreamLayout> plan_layout(const Spec& spec, std::uint32_t slots, std::uint32_t workers = 1);

}  // namespace sl
