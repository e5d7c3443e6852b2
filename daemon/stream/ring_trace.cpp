// What the trace is told about a stream's consumer, as far as the daemon can see it: the return page has the
// client's own word on when it began to wait, which is moved to lie between its last wait and now.
#include <algorithm>

#include "daemon/stream/batch_ring.h"

namespace sl {

sl_shm_trace_event BatchRing::event_of(std::uint8_t kind, const sl_shm_descriptor& descriptor) const {
    sl_shm_trace_event event{};
    event.begin_ns = Trace::now();
    event.end_ns = event.begin_ns;
    event.step = descriptor.step;
    event.stream = stream_;
    event.epoch = static_cast<std::uint32_t>(descriptor.epoch);
    event.batch = static_cast<std::uint32_t>(descriptor.batch);
    event.kind = kind;
    return event;
}

void BatchRing::watch(Trace& trace) {
    trace_ = &trace;
    last_wait_end_ns_ = Trace::now();
}

void BatchRing::trace_publication(const sl_shm_descriptor& descriptor) {
    if (trace_ == nullptr) return;
    sl_shm_trace_event event = event_of(SL_SHM_TRACE_PUBLISH, descriptor);
    event.amount = descriptor.count;
    trace_->record(event);
    slots_[descriptor.slot].lease = event;
    if (std::uint64_t since = client_waits_since(); since != 0) {
        event.kind = SL_SHM_TRACE_WAIT;
        event.begin_ns = std::clamp(since, std::min(last_wait_end_ns_, event.end_ns), event.end_ns);
        event.amount = 0;
        last_wait_end_ns_ = event.end_ns;
        trace_->record(event);
    }
}

void BatchRing::trace_return(const Slot& slot) {
    if (trace_ == nullptr) return;
    sl_shm_trace_event event = slot.lease;
    event.kind = SL_SHM_TRACE_LEASE;
    event.end_ns = Trace::now();
    trace_->record(event);
}

void BatchRing::trace_end_of_epoch(const sl_shm_descriptor& descriptor) {
    if (trace_ != nullptr) trace_->record(event_of(SL_SHM_TRACE_EPOCH_END, descriptor));
}

void BatchRing::was_full(std::uint64_t since_ns) {
    sl_shm_trace_event event = event_of(SL_SHM_TRACE_FULL, {});
    event.begin_ns = since_ns;
    count(stats().ring_full_ns, event.end_ns - since_ns);
    if (trace_ != nullptr) trace_->record(event);
}

std::uint64_t BatchRing::client_waits_since() const {
    return sl_shm_load_relaxed_u64(&return_page()->waiting_since_ns);
}

std::uint64_t BatchRing::client_waited_ns() const {
    const std::uint64_t since = client_waits_since();
    const std::uint64_t now = Trace::now();
    const std::uint64_t ended = sl_shm_load_relaxed_u64(&return_page()->waited_ns);
    return since != 0 && since < now ? ended + now - since : ended;
}

bool BatchRing::client_keeps_waits() const {
    return sl_shm_load_relaxed_u32(&return_page()->wants_event) == 0;
}

}  // namespace sl
