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

// Tracks of guests, until it is known how many those of workers are.
constexpr std::uint16_t kGuests = 0x8000;
// Of a stream that nobody has been named for.
constexpr uid_t kNobody = ~uid_t{0};

}  // namespace

Trace::Trace(std::uint32_t workers, std::uint32_t assemblers)
    : workers_(workers),
      assemblers_(assemblers),
      capacity_(capacity_for(workers)),
      last_decode_end_(workers) {
    events_.reserve(capacity_);
    events_owners_.reserve(capacity_);
}

std::uint64_t Trace::now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void Trace::add(const sl_shm_trace_event& event) {
    const auto found = owners_.find(event.stream);
    const uid_t owner = found != owners_.end() ? found->second : kNobody;
    if (events_.size() < capacity_) {
        events_.push_back(event);
        events_owners_.push_back(owner);
        return;
    }
    events_[oldest_] = event;
    events_owners_[oldest_] = owner;
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

// How many crews' tracks there is room for; more than that share them.
std::uint32_t Trace::most_places() const {
    return std::max(kGuests / std::max(workers_, 1U), 1U);
}

std::uint64_t Trace::record_decode(sl_shm_trace_event event, std::uint32_t place, std::uint64_t said_begin,
                                   std::uint64_t said_end) {
    if (event.track >= std::min<std::uint32_t>(workers_, kGuests)) return 0;
    event.track = static_cast<std::uint16_t>(event.track + place % most_places() * workers_);
    if (event.track >= last_decode_end_.size()) last_decode_end_.resize(event.track + std::size_t{1});
    std::uint64_t& last = last_decode_end_[event.track];
    const std::uint64_t earliest = std::min(std::max(event.begin_ns, last), event.end_ns);
    const std::uint64_t latest = event.end_ns;
    event.begin_ns = std::clamp(said_begin, earliest, latest);
    event.end_ns = std::clamp(said_end, event.begin_ns, latest);
    last = event.end_ns;
    record(event);
    return event.end_ns - event.begin_ns;
}

void Trace::record_guest(sl_shm_trace_event event, std::uint64_t said_begin, std::uint64_t said_end) {
    event.begin_ns = std::clamp(said_begin, event.begin_ns, event.end_ns);
    event.end_ns = std::clamp(said_end, event.begin_ns, event.end_ns);
    event.track = static_cast<std::uint16_t>(event.track | kGuests);
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

Trace::Document Trace::document(std::optional<uid_t> of) const {
    Document made;
    made.events.reserve(of ? 0 : events_.size());
    std::uint32_t tracks = workers_;
    for (std::size_t i = 0; i < events_.size(); ++i) {
        const std::size_t at = oldest_ + i < events_.size() ? oldest_ + i : oldest_ + i - events_.size();
        if (of && events_owners_[at] != *of) continue;
        sl_shm_trace_event& event = made.events.emplace_back(events_[at]);
        if (event.kind != SL_SHM_TRACE_DECODE || event.track >= kGuests) continue;
        if (of) event.track = static_cast<std::uint16_t>(event.track % workers_);
        tracks = std::max(tracks, (event.track / workers_ + 1) * workers_);
    }
    for (sl_shm_trace_event& event : made.events) {
        const bool workers_event = event.kind == SL_SHM_TRACE_DECODE || event.kind == SL_SHM_TRACE_COLLATE;
        if (workers_event && event.track >= kGuests)
            event.track = static_cast<std::uint16_t>(tracks + (event.track - kGuests));
    }
    made.header = {.header_bytes = sizeof(sl_shm_trace_header),
                   .event_bytes = sizeof(sl_shm_trace_event),
                   .count = made.events.size(),
                   .overwritten = overwritten_,
                   .now_ns = now(),
                   .workers = tracks,
                   .assemblers = assemblers_};
    return made;
}

}  // namespace sl
