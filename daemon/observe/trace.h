// The trace: what the daemon did in its last seconds, and how busy its stages have been since it began.
//
// Written by the conductor, and by the batch rings and streams that it drives, all on its thread; nobody
// waits for it. It is always on: an event is one store of 64 bytes and, for most, one look at the clock
// (together less than 0.1 microseconds; a sample makes four). Events are kept in a ring of fixed size, the
// newest win: 65,536, or 32,768 a worker if there are more than two, at most 262,144. At 1,000 samples a
// second and worker that is about eight seconds and 2 MiB a worker; the memory is touched as it is used. With
// each event is kept whose it is, for a user sees the own ones only.
//
// The stages' totals are for the utilisation law: the busy time of a stage over a while, by its servers and
// the length of the while, is its utilisation (speedyctl verdict does that).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "shm/trace.h"

namespace sl {

// Since the daemon's start; times in nanoseconds of the wall clock but for decode_cpu_ns. A span counts when
// it ends.
struct StageTotals {
    std::uint64_t reads = 0;       // opens and reads that came back in time
    std::uint64_t read_ns = 0;     // sum of their lengths; many are under way at once
    std::uint64_t reading_ns = 0;  // time with at least one under way
    std::uint64_t decodes = 0;
    std::uint64_t decode_ns = 0;
    std::uint64_t decode_cpu_ns = 0;
    std::uint64_t rows = 0;
    std::uint64_t row_ns = 0;
};

class Trace {
  public:
    // `workers`: of each native crew.
    Trace(std::uint32_t workers, std::uint32_t assemblers);

    [[nodiscard]] static std::uint64_t now();

    // Whose a stream's events are: told before its first one, and when it has had its last one.
    void opened(std::uint64_t stream, uid_t uid) { owners_[static_cast<std::uint32_t>(stream)] = uid; }
    void gone(std::uint64_t stream) { owners_.erase(static_cast<std::uint32_t>(stream)); }

    // Adds an event and, for the kinds that have one, its stage's totals.
    void record(const sl_shm_trace_event& event);
    // The same for a decode whose begin and end are a worker's word: they are moved to lie within
    // [event.begin_ns, event.end_ns], which the conductor knows, and behind the worker's last one. `place`:
    // its crew's (crew.h), the track is the worker's in the crew. Returns its length.
    std::uint64_t record_decode(sl_shm_trace_event event, std::uint32_t place, std::uint64_t said_begin,
                                std::uint64_t said_end);
    // The same for one of a guest worker's: a track behind the workers', and no part of the stage's totals,
    // for its server is not the daemon's.
    void record_guest(sl_shm_trace_event event, std::uint64_t said_begin, std::uint64_t said_end);
    // Whether opens or reads are under way now; told whenever that may have changed.
    void reads_under_way(bool any);

    // As of now, with a reading time that goes on.
    [[nodiscard]] StageTotals totals() const;
    [[nodiscard]] std::uint32_t assemblers() const { return assemblers_; }

    // The document of shm/trace.h, of all events or one user's. The tracks of several crews' workers lie
    // behind each other; a user sees the own crew's only.
    struct Document {
        sl_shm_trace_header header{};
        std::vector<sl_shm_trace_event> events;
    };
    [[nodiscard]] Document document(std::optional<uid_t> of = {}) const;

  private:
    void add(const sl_shm_trace_event& event);
    [[nodiscard]] std::uint32_t most_places() const;

    std::uint32_t workers_;
    std::uint32_t assemblers_;
    std::size_t capacity_;
    std::vector<sl_shm_trace_event> events_;  // grows to its capacity, then is a ring
    std::vector<uid_t> events_owners_;
    std::map<std::uint32_t, uid_t> owners_;  // of the streams there are
    std::size_t oldest_ = 0;
    std::uint64_t overwritten_ = 0;
    StageTotals totals_;
    std::uint64_t reading_since_ = 0;             // 0: nothing under way
    std::vector<std::uint64_t> last_decode_end_;  // by track
};

}  // namespace sl
