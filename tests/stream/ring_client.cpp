#include "tests/stream/ring_client.h"

#include "shm/wake.h"
#include "tests/cmocka_cpp.h"

namespace sl {

StreamLayout layout_for(std::uint32_t batch, std::uint32_t slots, std::uint32_t height, std::uint32_t width) {
    Spec spec;
    spec.batch.size = batch;
    spec.pipeline.height = height;
    spec.pipeline.width = width;
    auto layout = plan_layout(spec, slots);
    if (!layout) fail_msg("%s", layout.error().message.c_str());
    return *layout;
}

BatchRing make_ring(const StreamLayout& layout) {
    auto ring = BatchRing::create(layout, {.boot_id = 11,
                                           .stream_id = 22,
                                           .batches_per_epoch = 33,
                                           .epochs = 44,
                                           .samples = 55,
                                           .start = {.dataset = 66,
                                                     .seed = 77,
                                                     .global_batch = 88,
                                                     .last = LastBatch::kPad,
                                                     .epoch = 9,
                                                     .batch = 10},
                                           .any_members = true});
    if (!ring) fail_msg("%s", ring.error().message.c_str());
    return std::move(*ring);
}

RingClient::RingClient(const BatchRing& ring) : wake_(ring.wake_fd()) {
    auto fd = ring.batches().read_only_fd();
    if (!fd) fail_msg("%s", fd.error().message.c_str());
    auto batches = Mapping::map(fd->get(), ring.batches().size(), Access::kReadOnly);
    auto returns = Mapping::map(ring.returns().writable_fd(), ring.returns().size(), Access::kReadWrite);
    if (!batches || !returns) fail_msg("cannot map the ring");
    batches_ = std::move(*batches);
    returns_ = std::move(*returns);
}

const sl_shm_batch_header& RingClient::header() const {
    return *reinterpret_cast<const sl_shm_batch_header*>(base());
}
const sl_shm_batch_live& RingClient::live() const {
    return *reinterpret_cast<const sl_shm_batch_live*>(base() + SL_SHM_LIVE_OFFSET);
}
const sl_shm_stream_error& RingClient::error() const {
    return *reinterpret_cast<const sl_shm_stream_error*>(base() + SL_SHM_ERROR_OFFSET);
}
sl_shm_return_page& RingClient::returns() const {
    return *reinterpret_cast<sl_shm_return_page*>(returns_.data());
}
std::uint64_t RingClient::slot_word(std::uint32_t slot) const {
    const auto* words = reinterpret_cast<const std::uint64_t*>(base() + header().words_offset);
    return sl_shm_load_relaxed_u64(&words[slot]);
}
const sl_shm_sample_info* RingClient::info(std::uint32_t slot) const {
    const auto* first = reinterpret_cast<const sl_shm_sample_info*>(base() + header().info_offset);
    return first + std::uint64_t{slot} * header().batch_size;
}
const std::byte* RingClient::tensor(std::uint32_t slot, std::size_t index) const {
    return base() + header().slots_offset + slot * header().slot_bytes + header().tensors[index].offset;
}

std::optional<sl_shm_descriptor> RingClient::take() {
    if (sl_shm_load_acquire_u32(&live().published) == taken_) return std::nullopt;
    const auto* ring = reinterpret_cast<const sl_shm_descriptor*>(base() + header().ring_offset);
    const sl_shm_descriptor descriptor = ring[taken_ & (header().ring_capacity - 1)];
    sl_shm_store_relaxed_u32(&returns().consumed, ++taken_);
    return descriptor;
}

void RingClient::give_back(const sl_shm_descriptor& batch) {
    sl_shm_store_release_u32(&returns().generation[batch.slot], batch.generation);
    sl_shm_fence_seq_cst();
    if (sl_shm_load_relaxed_u32(&live().daemon_sleeps) != 0) ring(wake_);
}

}  // namespace sl
