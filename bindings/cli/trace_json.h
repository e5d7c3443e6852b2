// A trace as the Trace Event Format that ui.perfetto.dev and chrome://tracing open.
//
// Pure: events in, JSON out; times are microseconds since the first event. Tracks: one a worker, one an
// assembler thread, the reader's opens and reads, and of each stream its waits, the batches it holds and the
// time its ring was full. Spans of a track are complete events ("X"), in order and without overlap; what
// overlaps by nature (opens, reads, batches held) are pairs of "b" and "e" with an id.
#pragma once

#include <speedyloader/speedyloader.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace sl::cli {

// What the status says of the streams, by id; for names.
using StreamNames = std::map<std::uint32_t, std::string>;

struct TraceInput {
    std::span<const sl_trace_event> events;
    std::uint32_t workers = 0;
    std::uint32_t assemblers = 0;
    std::uint64_t from_ns = 0;  // events that ended before are left out
    StreamNames streams;
};

std::string trace_json(const TraceInput& input);

}  // namespace sl::cli
