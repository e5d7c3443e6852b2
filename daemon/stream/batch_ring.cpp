#include "daemon/stream/batch_ring.h"

#include <algorithm>
#include <cstring>

#include "shm/fault.h"

namespace sl {

namespace {

std::uint32_t last_word(LastBatch last) {
    switch (last) {
        case LastBatch::kKeep:
            return SL_SHM_LAST_KEEP;
        case LastBatch::kPad:
            return SL_SHM_LAST_PAD;
        default:
            return SL_SHM_LAST_DROP;
    }
}

}  // namespace

Result<BatchRing> BatchRing::create(const StreamLayout& layout, const RingIdentity& identity) {
    BatchRing ring;
    ring.layout_ = layout;
    ring.slots_.resize(layout.slot_count);
    ring.after_.resize(layout.ring_capacity);
    auto batches = Segment::create("speedyloader-batches", layout.segment_bytes);
    if (!batches) return std::unexpected(std::move(batches).error().because("batch ring"));
    auto returns = Segment::create("speedyloader-returns", sizeof(sl_shm_return_page));
    if (!returns) return std::unexpected(std::move(returns).error().because("return page"));
    auto wake = make_event_fd();
    auto event = make_bell();
    if (!wake) return std::unexpected(wake.error());
    if (!event) return std::unexpected(event.error());
    ring.batches_ = std::move(*batches);
    ring.returns_ = std::move(*returns);
    ring.wake_ = std::move(*wake);
    ring.event_ = std::move(*event);
    ring_bell(ring.event_.ringer.get());  // who asks for events later looks at least once
    ring.stream_ = static_cast<std::uint32_t>(identity.stream_id);
    ring.write_header(identity);
    auto sealed_batches =
        layout.guests_write() ? ring.batches_.seal_size() : ring.batches_.seal_against_writers();
    if (!sealed_batches) return std::unexpected(sealed_batches.error());
    if (auto sealed = ring.returns_.seal_size(); !sealed) return std::unexpected(sealed.error());
    return ring;
}

void BatchRing::write_header(const RingIdentity& identity) {
    auto* header = reinterpret_cast<sl_shm_batch_header*>(batches_.data());
    header->magic = SL_SHM_MAGIC;
    header->major = SL_SHM_MAJOR;
    header->minor = SL_SHM_MINOR;
    header->header_bytes = sizeof *header;
    header->segment_bytes = batches_.size();
    header->boot_id = identity.boot_id;
    header->stream_id = identity.stream_id;
    header->slot_count = layout_.slot_count;
    header->ring_capacity = layout_.ring_capacity;
    header->batch_size = layout_.batch_size;
    header->tensor_count = static_cast<std::uint32_t>(layout_.tensors.size());
    header->slot_bytes = layout_.slot_bytes;
    header->ring_offset = layout_.ring_offset;
    header->words_offset = layout_.words_offset;
    header->info_offset = layout_.info_offset;
    header->slots_offset = layout_.slots_offset;
    header->batches_per_epoch = identity.batches_per_epoch;
    header->first_epoch = identity.start.epoch;
    header->epochs = identity.epochs;
    header->samples = identity.samples;
    const std::size_t first = std::min<std::size_t>(layout_.tensors.size(), SL_SHM_MAX_TENSORS);
    std::copy_n(layout_.tensors.begin(), first, header->tensors);
    std::copy(layout_.tensors.begin() + static_cast<std::ptrdiff_t>(first), layout_.tensors.end(),
              header->more_tensors);
    header->first_batch = identity.start.batch;
    header->fingerprint = identity.start.dataset;
    header->seed = identity.start.seed;
    header->global_batch = identity.start.global_batch;
    header->order_version = identity.start.order;
    header->last = last_word(identity.start.last);
    if (identity.start.shuffle) header->flags |= SL_SHM_SHUFFLE;
    if (identity.any_members) header->flags |= SL_SHM_ANY_MEMBERS;
    sl_shm_store_release_u32(&header->ready, SL_SHM_READY);  // READY
}

std::byte* BatchRing::tensor(std::uint32_t slot, std::size_t index) const {
    return batches_.data() + layout_.slots_offset + slot * layout_.slot_bytes + layout_.tensors[index].offset;
}

sl_shm_sample_info* BatchRing::info(std::uint32_t slot, std::uint32_t row) const {
    auto* first = reinterpret_cast<sl_shm_sample_info*>(batches_.data() + layout_.info_offset);
    return first + std::uint64_t{slot} * layout_.batch_size + row;
}

void BatchRing::set_slot(std::uint32_t slot, std::uint32_t state) {
    slots_[slot].state = state;
    auto* words = reinterpret_cast<std::uint64_t*>(batches_.data() + layout_.words_offset);
    sl_shm_store_relaxed_u64(&words[slot], sl_slot_word(state, 0, 0, slots_[slot].generation));
}

std::optional<std::uint32_t> BatchRing::acquire() {
    auto found = std::ranges::find_if(slots_, [](const Slot& slot) { return slot.state == SL_SLOT_FREE; });
    if (found == slots_.end()) return std::nullopt;
    auto slot = static_cast<std::uint32_t>(found - slots_.begin());
    // 0 is what a fresh return page holds, so no lease may carry it.
    if (++slots_[slot].generation == 0) ++slots_[slot].generation;
    set_slot(slot, SL_SLOT_FILLING);
    return slot;
}

void BatchRing::publish(const sl_shm_descriptor& descriptor) {
    const std::uint32_t place = published_ & (layout_.ring_capacity - 1);
    const bool is_batch = descriptor.kind == SL_DESCRIPTOR_BATCH;
    after_[place] = {is_batch ? descriptor.step + 1 : descriptor.step, unread() == 0};
    show_stats();
    auto* ring = reinterpret_cast<sl_shm_descriptor*>(batches_.data() + layout_.ring_offset);
    ring[place] = descriptor;
    SL_FAULT(daemon_descriptor_written);
    sl_shm_store_release_u32(&live()->published, ++published_);  // PUBLISH
    SL_FAULT(daemon_published);
    sl_shm_fence_seq_cst();  // SLEEP pair: published before client_sleeps
    if (sl_shm_load_relaxed_u32(&return_page()->client_sleeps) != 0) futex_wake_all(&live()->published);
    if (sl_shm_load_relaxed_u32(&return_page()->wants_event) != 0) ring_bell(event_.ringer.get());
    SL_FAULT(daemon_woken);
}

void BatchRing::publish_batch(std::uint32_t slot, std::uint64_t epoch, std::uint64_t batch,
                              std::uint64_t step, std::uint32_t count) {
    set_slot(slot, SL_SLOT_LEASED);
    ++leased_;
    sl_shm_descriptor descriptor{};
    descriptor.kind = SL_DESCRIPTOR_BATCH;
    descriptor.slot = slot;
    descriptor.generation = slots_[slot].generation;
    descriptor.count = count;
    descriptor.epoch = epoch;
    descriptor.batch = batch;
    descriptor.step = step;
    if (unread() == 0) ++found_empty_;
    trace_publication(descriptor);
    publish(descriptor);
}

void BatchRing::publish_state(std::uint32_t kind, std::uint64_t epoch, std::uint64_t step) {
    sl_shm_descriptor descriptor{};
    descriptor.kind = kind;
    descriptor.epoch = epoch;
    descriptor.step = step;
    if (kind == SL_DESCRIPTOR_END_OF_EPOCH) trace_end_of_epoch(descriptor);
    publish(descriptor);
}

void BatchRing::publish_error(const sl_shm_stream_error& error, std::uint64_t step) {
    std::memcpy(batches_.data() + SL_SHM_ERROR_OFFSET, &error, sizeof error);
    publish_state(SL_DESCRIPTOR_ERROR, error.epoch, step);
}

void BatchRing::close() {
    sl_shm_store_release_u32(&live()->closed, 1);
    futex_wake_all(&live()->published);
    ring_bell(event_.ringer.get());
}

void BatchRing::give_up(std::vector<Segment>& to) {
    to.push_back(std::move(batches_));
    to.push_back(std::move(returns_));
}

bool BatchRing::collect_returns() {
    if (leased_ == 0) return false;
    bool any = false;
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
        if (slots_[slot].state != SL_SLOT_LEASED) continue;
        std::uint32_t returned = sl_shm_load_acquire_u32(&return_page()->generation[slot]);  // RETURN
        if (returned != slots_[slot].generation) continue;
        SL_FAULT(daemon_return_seen);
        set_slot(slot, SL_SLOT_FREE);
        trace_return(slots_[slot]);
        --leased_;
        SL_FAULT(daemon_return_collected);
        any = true;
    }
    return any;
}

void BatchRing::set_sleeping(bool sleeping) {
    if (sleeping) {
        show_stats();
        sl_shm_store_seq_cst_u32(&live()->daemon_sleeps, 1);
        sl_shm_fence_seq_cst();  // SLEEP pair: daemon_sleeps before the look at the return page
    } else {
        sl_shm_store_relaxed_u32(&live()->daemon_sleeps, 0);
    }
}

// Whoever reads them sees each word whole.
void BatchRing::show_stats() {
    constexpr std::size_t kWords = sizeof stats_ / sizeof(std::uint64_t);
    const auto* from = reinterpret_cast<const std::uint64_t*>(&stats_);
    auto* to = reinterpret_cast<std::uint64_t*>(&live()->stats);
    for (std::size_t i = 0; i < kWords; ++i)
        sl_shm_store_relaxed_u64(&to[i], from[i]);
}

std::uint32_t BatchRing::unread() const {
    std::uint32_t unread = published_ - sl_shm_load_relaxed_u32(&return_page()->consumed);
    return std::min(unread, layout_.ring_capacity);
}

std::optional<BatchRing::Taken> BatchRing::taken() const {
    const std::uint32_t left = unread();
    if (left >= std::min(published_, layout_.ring_capacity)) return std::nullopt;
    return after_[(published_ - left - 1) & (layout_.ring_capacity - 1)];
}

}  // namespace sl
