// What a stream of items does differently: rows that are copied, rows that are nobody's, the texts of items
// that raised, and what each may cost.
//
// On the conductor's thread, as the rest of the stream. Guests write the sample slots and are believed in
// nothing: what is read of a slot is read once and bounded.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/stream/stream.h"

namespace sl {

namespace {

// Text as JSON and people can take it: what is not UTF-8, and a NUL, become U+FFFD.
std::string as_text(std::string bytes) {
    using Json = nlohmann::json;
    std::ranges::replace(bytes, '\0', '\xFF');
    return Json::parse(Json(std::move(bytes)).dump(-1, ' ', false, Json::error_handler_t::replace))
        .get<std::string>();
}

// A text of at most `most` bytes that a guest wrote, and may still be writing.
std::string text_at(const void* at, std::uint64_t bytes, std::uint64_t most) {
    return as_text(
        {static_cast<const char*>(at), std::min({bytes, most, std::uint64_t{SL_SHM_ITEM_TEXT_MAX}})});
}

}  // namespace

void Stream::plan_copies() {
    if (!is_items()) return;
    const sl_shm_item_layout& slot = ring_.layout().items;
    const std::vector<sl_shm_tensor>& tensors = ring_.layout().tensors;
    copies_.opaque = spec_.items.opaque;
    if (copies_.opaque) {
        copies_.capacity = slot.field[0].bytes;
        copies_.lengths = tensors[slot.fields].offset;
    }
    rest_ = copies_;
    for (std::uint32_t i = 0; i < slot.fields; ++i) {
        const CopyPlan::Field field{slot.field[i].offset, slot.field[i].bytes, tensors[i].offset};
        copies_.fields.push_back(field);
        if ((slot.in_place >> i & 1U) != 0) continue;
        rest_.fields.push_back(field);
        rest_bytes_ += field.bytes;
    }
}

sl_shm_place Stream::place_ahead(const Task& task) {
    if (ring_.layout().items.in_place == 0) return {};
    const Output* output = output_for(task);
    if (output == nullptr) return {};
    return {.kind = SL_SHM_PLACE_ROW, .slot = output->slot, .row = task.row, .reserved = 0};
}

DrawKey Stream::key(const Task& task) const {
    const ItemOrder* items = dataset_->items();
    if (items == nullptr) return task.key(spec_.seed);
    return {spec_.seed, spec_.items.epoch, items->item(task.sample_id)};
}

std::uint64_t Stream::item_cost_bytes(const Task& task) const {
    return predictor_.model().bytes_of(dataset_->items()->hint(task.sample_id));
}

std::uint32_t Stream::nobodies_in(std::uint64_t epoch, std::uint64_t batch) {
    if (!is_items() || dataset_->items()->nobodies() == 0) return 0;
    const BatchPlan& made = plan(epoch);
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < made.members(batch); ++i)
        count += is_nobody(made.member(batch, i).id) ? 1 : 0;
    return count;
}

// Of the positions that an account would else expect.
std::uint64_t Stream::nobodies_planned(const BatchPlan& made, std::uint64_t first_batch) const {
    if (!is_items()) return 0;
    return dataset_->items()->nobodies(made.first_position(first_batch),
                                       made.sequence().size() - made.left_out());
}

std::uint64_t Stream::nobodies_left_out(const BatchPlan& made) const {
    if (!is_items()) return 0;
    const std::uint64_t size = made.sequence().size();
    return dataset_->items()->nobodies(size - made.left_out(), size);
}

std::string Stream::item_text(const Task& task) const {
    const std::uint8_t* slot = slots_.data(task.slot);
    const auto* header = reinterpret_cast<const sl_shm_item_header*>(slot);
    const std::uint64_t room = ring_.layout().sample_slot_bytes - sizeof *header;
    return text_at(slot + sizeof *header, sl_shm_load_relaxed_u64(&header->error_bytes), room);
}

std::string Stream::collate_text(const Task& task, std::uint64_t bytes) const {
    return text_at(ring_.tensor(output_of(task).slot, ring_.layout().collated_tensor()), bytes,
                   spec_.items.collate_bytes);
}

void Stream::add_item(const Task& task, RowJob& job) {
    const Output& output = output_of(task);
    job.copy = {task.in_place ? &rest_ : &copies_,
                reinterpret_cast<std::uint8_t*>(ring_.tensor(output.slot, 0)), task.output_row};
}

}  // namespace sl
