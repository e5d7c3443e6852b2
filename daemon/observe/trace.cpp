#include "daemon/observe/trace.h"

#include <algorithm>
#include <ctime>

namespace sl {

namespace {

std::size_t capacity_for(std::uint32_t workers) {
    constexpr std::size_t kPerWorker = 32'768;
    constexpr std::size_t kLeast = 65'536;
    constexpr std::size_t kMost = 262'144;
    return std::clamp(kPerWorker * workers, kLeast, kMost);
}

}  // namespace

Trace::Trace(std::uint32_t workers, std::uint32_t assemblers)
    : workers_(workers),
      assemblers_(assemblers),
      capacity_(capacity_for(workers)),
      last_decode_end_(workers) {
    events_.reserve(capacity_);
}

std::uint64_t Trace::now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void Trace::add(const sl_shm_trace_event& event) {
    if (events_.size() < capacity_) {
        events_.push_back(event);
        return;
    }
    events_[oldest_] = event;
    if (++oldest_ == capacity_) oldest_ = 0;
    ++overwritten_;
}

void Trace::record(const sl_shm_trace_event& event) {
    const std::uint64_t length = event.end_ns - event.begin_ns;
    switch (event.kind) {
        case SL_SHM_TRACE_OPEN:
        case SL_SHM_TRACE_READ:
            ++totals_.reads;
            totals_.read_ns += length;
            break;
        case SL_SHM_TRACE_DECODE:
            ++totals_.decodes;
            totals_.decode_ns += length;
            totals_.decode_cpu_ns += event.amount;
            break;
        case SL_SHM_TRACE_ROW:
            ++totals_.rows;
            totals_.row_ns += length;
            break;
        default:
            break;
    }
    add(event);
}

void Trace::record_decode(sl_shm_trace_event event, std::uint64_t said_begin, std::uint64_t said_end) {
    if (event.track >= last_decode_end_.size()) return;
    std::uint64_t& last = last_decode_end_[event.track];
    const std::uint64_t earliest = std::min(std::max(event.begin_ns, last), event.end_ns);
    const std::uint64_t latest = event.end_ns;
    event.begin_ns = std::clamp(said_begin, earliest, latest);
    event.end_ns = std::clamp(said_end, event.begin_ns, latest);
    last = event.end_ns;
    record(event);
}

void Trace::record_guest(sl_shm_trace_event event, std::uint64_t said_begin, std::uint64_t said_end) {
    event.begin_ns = std::clamp(said_begin, event.begin_ns, event.end_ns);
    event.end_ns = std::clamp(said_end, event.begin_ns, event.end_ns);
    event.track = static_cast<std::uint16_t>(event.track + workers_);
    add(event);
}

void Trace::reads_under_way(bool any) {
    if (any == (reading_since_ != 0)) return;
    if (any) {
        reading_since_ = now();
    } else {
        totals_.reading_ns += now() - reading_since_;
        reading_since_ = 0;
    }
}

StageTotals Trace::totals() const {
    StageTotals totals = totals_;
    if (reading_since_ != 0) totals.reading_ns += now() - reading_since_;
    return totals;
}

Trace::Parts Trace::parts() const {
    Parts parts;
    parts.header = {.header_bytes = sizeof(sl_shm_trace_header),
                    .event_bytes = sizeof(sl_shm_trace_event),
                    .count = events_.size(),
                    .overwritten = overwritten_,
                    .now_ns = now(),
                    .workers = workers_,
                    .assemblers = assemblers_};
    const std::span<const sl_shm_trace_event> all(events_);
    parts.events = {all.subspan(oldest_), all.first(oldest_)};
    return parts;
}

}  // namespace sl
