#include "daemon/stream/stream_layout.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <span>
#include <string_view>

#include "shm/socket.h"

namespace sl {

namespace {

constexpr std::uint32_t kDefaultSlots = 4;      // enough to hide a batch's worth of jitter on each side
constexpr std::uint32_t kSmallBatchSlots = 16;  // batches under kSmallBatch cost little and come quickly
constexpr std::uint64_t kSmallBatch = 2U << 20;
constexpr std::uint64_t kLaneBytes = 64U
                                     << 20;  // of items in a lane beyond what the batch and workers ask for

std::uint64_t align(std::uint64_t value, std::uint64_t border) {
    return (value + border - 1) / border * border;
}

struct Builder {
    StreamLayout& layout;
    std::uint64_t offset = 0;

    void add(std::string_view name, std::uint32_t dtype, std::span<const std::uint64_t> row_shape) {
        sl_shm_tensor tensor{};
        copy_text(tensor.name, name);
        tensor.dtype = dtype;
        tensor.shape[0] = layout.batch_size;
        tensor.ndim = 1;
        std::uint64_t elements = layout.batch_size;
        for (std::uint64_t side : row_shape) {
            tensor.shape[tensor.ndim++] = static_cast<std::int64_t>(side);
            elements *= side;
        }
        tensor.offset = offset;
        tensor.bytes = elements * element_bytes(dtype);
        offset = align(offset + tensor.bytes, SL_SHM_TENSOR_ALIGN);
        layout.tensors.push_back(tensor);
    }
    void add(std::string_view name, std::uint32_t dtype, std::initializer_list<std::uint64_t> row_shape) {
        add(name, dtype, std::span(row_shape.begin(), row_shape.size()));
    }
    // Of the batch as a whole: one side, which is its own.
    void add_whole(std::string_view name, std::uint32_t dtype, std::uint64_t elements) {
        add(name, dtype, {});
        sl_shm_tensor& tensor = layout.tensors.back();
        offset = align(tensor.offset + elements * element_bytes(dtype), SL_SHM_TENSOR_ALIGN);
        tensor.shape[0] = static_cast<std::int64_t>(elements);
        tensor.bytes = elements * element_bytes(dtype);
        tensor.flags = SL_SHM_TENSOR_WHOLE;
    }
    void add_ids() {
        layout.sample_id_tensor = layout.tensors.size();
        add("sample_id", SL_SHM_UINT64, {});
        add("valid", SL_SHM_UINT8, {});
    }
};

void add_pictures(const Spec& spec, Builder& builder) {
    const Pipeline& pipeline = spec.pipeline;
    auto dtype = static_cast<std::uint32_t>(spec.dtype);
    const std::uint64_t height = pipeline.height;
    const std::uint64_t width = pipeline.width;
    const std::uint64_t channels = pipeline.channels;
    if (spec.layout == Layout::kNchw) {
        builder.add("image", dtype, {channels, height, width});
    } else {
        builder.add("image", dtype, {height, width, channels});
    }
    builder.add("label", SL_SHM_INT64, {});
    builder.add_ids();
    if (spec.explain) {
        builder.add("crop_box", SL_SHM_INT32, {4});
        builder.add("flip", SL_SHM_UINT8, {});
    }
    StreamLayout& layout = builder.layout;
    layout.image_row_bytes = layout.tensors.front().bytes / layout.batch_size;
    layout.sample_slot_bytes = align(pipeline.sample_bytes(), SL_SHM_TENSOR_ALIGN);
}

void add_items(const ItemsSpec& items, Builder& builder) {
    for (const RowField& field : items.rows)
        builder.add(field.name, field.dtype, field.shape);
    if (items.opaque) builder.add("item_bytes", SL_SHM_UINT64, {});
    builder.add_ids();
    if (items.collate_bytes != 0) {
        builder.add_whole("collated", SL_SHM_UINT8, items.collate_bytes);
        builder.add_whole("collated_bytes", SL_SHM_UINT64, 1);
    }
    builder.layout.items = item_layout(items);
    builder.layout.sample_slot_bytes = builder.layout.items.slot_bytes;
}

// Where guests find rows, once it is known where the slots lie. Which row an item gets is known before it is
// made in strict order only. A field whose rows would lie on any border stays in the sample slot.
void place_rows(const Spec& spec, StreamLayout& layout) {
    sl_shm_item_layout& items = layout.items;
    for (std::uint32_t i = 0; i < items.fields && spec.order_policy == OrderPolicy::kStrict; ++i) {
        if (items.field[i].bytes % SL_SHM_FIELD_ALIGN == 0) items.in_place |= 1U << i;
    }
    if (items.in_place == 0 && spec.items.collate_bytes == 0) return;
    items.slots_offset = layout.slots_offset;
    items.batch_bytes = layout.slot_bytes;
    items.batch_slots = layout.slot_count;
    items.rows = layout.batch_size;
    for (std::uint32_t i = 0; i < items.fields; ++i)
        items.row_offset[i] = layout.tensors[i].offset;
    if (spec.items.collate_bytes == 0) return;
    items.lengths_offset = layout.tensors[items.fields].offset;
    items.valid_offset = layout.tensors[layout.sample_id_tensor + 1].offset;
    items.collated_offset = layout.tensors[layout.collated_tensor()].offset;
    items.collated_bytes = spec.items.collate_bytes;
}

}  // namespace

Result<StreamLayout> plan_layout(const Spec& spec, std::uint32_t slots, std::uint32_t workers) {
    if (slots > SL_SHM_MAX_SLOTS) {
        return fail(Status::kInvalidArgument, std::to_string(slots) + " batch slots asked for; at most " +
                                                  std::to_string(SL_SHM_MAX_SLOTS) + " are possible");
    }
    StreamLayout layout;
    layout.batch_size = spec.batch.size;
    Builder builder{layout};
    if (spec.kind == DatasetKind::kItems) {
        add_items(spec.items, builder);
    } else {
        add_pictures(spec, builder);
    }
    layout.slot_bytes = align(builder.offset, SL_SHM_PAGE);
    layout.slot_count = slots != 0                         ? slots
                        : layout.slot_bytes <= kSmallBatch ? kSmallBatchSlots
                                                           : kDefaultSlots;

    // Unread descriptors: at most one batch a slot, an end of epoch after each, the end and an error.
    layout.ring_capacity = std::bit_ceil(2 * layout.slot_count + 4);
    layout.ring_offset = SL_SHM_HEADER_BYTES;
    layout.words_offset = layout.ring_offset + layout.ring_capacity * sizeof(sl_shm_descriptor);
    layout.info_offset = align(layout.words_offset + layout.slot_count * sizeof(std::uint64_t), 64);
    std::uint64_t info_bytes =
        std::uint64_t{layout.slot_count} * layout.batch_size * sizeof(sl_shm_sample_info);
    layout.slots_offset = align(layout.info_offset + info_bytes, SL_SHM_PAGE);
    layout.segment_bytes = layout.slots_offset + layout.slot_count * layout.slot_bytes;
    if (spec.kind == DatasetKind::kItems) place_rows(spec, layout);

    // Lanes: a batch and a half of light samples, half a batch of medium and three quarters of one of heavy
    // ones, and the reserve of a batch; more is worth nothing (docs/scheduling.md). Many workers have many
    // heavy samples in hand, and as many again lie finished until their batches are due. Small batches have
    // some more, unless an item is so large (a whole batch, say) that these would be most of the memory.
    std::uint32_t batch = spec.batch.size;
    auto some = [&](std::uint32_t samples) {
        if (spec.kind != DatasetKind::kItems) return samples;
        return std::clamp(static_cast<std::uint32_t>(
                              std::min<std::uint64_t>(kLaneBytes / layout.sample_slot_bytes, samples)),
                          2U, samples);
    };
    layout.sample_slots.lanes = {std::max({batch + batch / 2, some(24), 2 * workers}),
                                 std::max(batch / 2, some(8)),
                                 std::max({batch - batch / 4, some(12), 2 * workers})};
    layout.sample_slots.reserve = batch;
    return layout;
}

}  // namespace sl
