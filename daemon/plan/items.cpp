#include "daemon/plan/items.h"

#include <functional>
#include <numeric>

namespace sl {

namespace {

std::uint64_t align(std::uint64_t value, std::uint64_t border) {
    return (value + border - 1) / border * border;
}

}  // namespace

std::uint64_t element_bytes(std::uint32_t dtype) {
    switch (dtype) {
        case SL_SHM_FLOAT32:
        case SL_SHM_INT32:
            return 4;
        case SL_SHM_FLOAT16:
        case SL_SHM_BFLOAT16:
            return 2;
        case SL_SHM_INT64:
        case SL_SHM_UINT64:
            return 8;
        default:
            return 1;
    }
}

std::uint64_t row_bytes(const RowField& field) {
    return std::accumulate(field.shape.begin(), field.shape.end(), element_bytes(field.dtype),
                           std::multiplies<>());
}

sl_shm_item_layout item_layout(const ItemsSpec& items) {
    sl_shm_item_layout layout{};
    layout.flags = items.opaque ? SL_SHM_ITEM_OPAQUE : 0;
    std::uint64_t offset = sizeof(sl_shm_item_header);
    for (const RowField& field : items.rows) {
        auto& place = layout.field[layout.fields++];
        place.offset = offset;
        place.bytes = row_bytes(field);
        offset = align(offset + place.bytes, SL_SHM_FIELD_ALIGN);
    }
    layout.slot_bytes = align(offset, SL_SHM_TENSOR_ALIGN);
    return layout;
}

}  // namespace sl
