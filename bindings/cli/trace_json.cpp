// See trace_json.h.
#include "bindings/cli/trace_json.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace sl::cli {

namespace {

// Processes and tracks as the viewer groups them. A stream is a process of its own, numbered behind the two.
constexpr std::uint64_t kDaemon = 1;
constexpr std::uint64_t kWorkers = 2;
constexpr std::uint64_t kStreams = 100;
constexpr std::uint64_t kReaderTrack = 1;
constexpr std::uint64_t kAssemblerTrack = 10;
constexpr std::uint64_t kWaitTrack = 1;
constexpr std::uint64_t kFullTrack = 2;
constexpr std::uint64_t kLeaseTrack = 3;

struct Place {
    std::uint64_t process = 0;
    std::uint64_t track = 0;
};

Place place_of(const sl_trace_event& event) {
    switch (event.kind) {
        case SL_TRACE_DECODE:
        case SL_TRACE_COLLATE:
            return {kWorkers, event.track + 1ULL};
        case SL_TRACE_ROW:
            return {kDaemon, kAssemblerTrack + event.track};
        case SL_TRACE_OPEN:
        case SL_TRACE_READ:
            return {kDaemon, kReaderTrack};
        case SL_TRACE_FULL:
            return {kStreams + event.stream, kFullTrack};
        case SL_TRACE_LEASE:
            return {kStreams + event.stream, kLeaseTrack};
        default:
            return {kStreams + event.stream, kWaitTrack};
    }
}

const char* lane_name(std::uint8_t lane) {
    constexpr const char* kNames[] = {"light", "medium", "heavy"};
    return lane < 3 ? kNames[lane] : "unknown";
}

std::string name_of(const sl_trace_event& event) {
    switch (event.kind) {
        case SL_TRACE_OPEN:
            return "open";
        case SL_TRACE_READ:
            return "read";
        case SL_TRACE_DECODE:
            return std::string("decode ") + lane_name(event.lane);
        case SL_TRACE_ROW:
            return "row";
        case SL_TRACE_COLLATE:
            return "collate";
        case SL_TRACE_PUBLISH:
            return "batch published";
        case SL_TRACE_LEASE:
            return "batch held";
        case SL_TRACE_WAIT:
            return "waits for a batch";
        case SL_TRACE_FULL:
            return "ring full";
        default:
            return "end of epoch " + std::to_string(event.epoch);
    }
}

const char* category_of(const sl_trace_event& event) {
    constexpr const char* kNames[] = {"",      "open", "read", "decode", "assemble", "batch",
                                      "lease", "wait", "full", "epoch",  "collate"};
    return kNames[event.kind];
}

// The arguments of an event, as JSON members.
std::string args_of(const sl_trace_event& event) {
    char text[512] = "";
    const int place = std::snprintf(text, sizeof text, "\"epoch\":%u,\"batch\":%u,\"step\":%" PRIu64,
                                    event.epoch, event.batch, event.step);
    char* end = text + place;
    const std::size_t room = sizeof text - static_cast<std::size_t>(place);
    switch (event.kind) {
        case SL_TRACE_OPEN:
        case SL_TRACE_READ:
            std::snprintf(end, room, ",\"sample\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"errno\":%u",
                          event.sample_id, event.amount, event.error);
            break;
        case SL_TRACE_DECODE:
            std::snprintf(end, room,
                          ",\"sample\":%" PRIu64
                          ",\"class\":\"%s\",\"predicted_ms\":%.3f,\"actual_ms\":%.3f,\"error\":\"%s\"",
                          event.sample_id, lane_name(event.lane), event.predicted_us * 1e-3,
                          static_cast<double>(event.amount) * 1e-6,
                          event.error == 0 ? "" : sl_sample_kind_name(event.error));
            break;
        case SL_TRACE_ROW:
            std::snprintf(end, room, ",\"sample\":%" PRIu64 ",\"class\":\"%s\"", event.sample_id,
                          lane_name(event.lane));
            break;
        case SL_TRACE_COLLATE:
            std::snprintf(end, room, ",\"actual_ms\":%.3f,\"error\":\"%s\"",
                          static_cast<double>(event.amount) * 1e-6,
                          event.error == 0 ? "" : sl_sample_kind_name(event.error));
            break;
        case SL_TRACE_PUBLISH:
            std::snprintf(end, room, ",\"rows\":%" PRIu64, event.amount);
            break;
        case SL_TRACE_FULL:
            return "";  // not one batch's
        default:
            break;
    }
    return text;
}

// One line of the output and where it sorts: by time, and the begin of a pair before its end.
struct Line {
    std::uint64_t time_ns = 0;
    std::size_t event = 0;
    char phase = 'X';
};

std::vector<Line> lines_of(std::span<const sl_trace_event> events, std::uint64_t from_ns) {
    std::vector<Line> lines;
    for (std::size_t i = 0; i < events.size(); ++i) {
        const sl_trace_event& event = events[i];
        if (event.end_ns < from_ns || event.kind < SL_TRACE_OPEN || event.kind > SL_TRACE_COLLATE) continue;
        switch (event.kind) {
            case SL_TRACE_OPEN:
            case SL_TRACE_READ:
            case SL_TRACE_LEASE:
                lines.push_back({event.begin_ns, i, 'b'});
                lines.push_back({event.end_ns, i, 'e'});
                break;
            case SL_TRACE_PUBLISH:
            case SL_TRACE_EPOCH_END:
                lines.push_back({event.begin_ns, i, 'i'});
                break;
            default:
                lines.push_back({event.begin_ns, i, 'X'});
        }
    }
    std::ranges::stable_sort(lines, {}, &Line::time_ns);
    return lines;
}

class Writer {
  public:
    explicit Writer(std::string& out) : out_(out) {}

    void name(Place place, const char* what, const std::string& name) {
        begin();
        out_ += "{\"ph\":\"M\",\"pid\":" + std::to_string(place.process) +
                ",\"tid\":" + std::to_string(place.track) + ",\"name\":\"" + what +
                "\",\"args\":{\"name\":" + quoted(name) + "}}";
    }

    void line(const Line& line, const sl_trace_event& event, std::uint64_t origin_ns) {
        begin();
        const Place place = place_of(event);
        const std::uint64_t since = line.time_ns - origin_ns;
        char text[256];
        std::snprintf(text, sizeof text,
                      "{\"ph\":\"%c\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"ts\":%" PRIu64
                      ".%03u,\"cat\":\"%s\",\"name\":\"",
                      line.phase, place.process, place.track, since / 1000,
                      static_cast<unsigned>(since % 1000), category_of(event));
        out_ += text + name_of(event) + "\"";
        if (line.phase == 'X') {
            const std::uint64_t length = event.end_ns - event.begin_ns;
            std::snprintf(text, sizeof text, ",\"dur\":%" PRIu64 ".%03u", length / 1000,
                          static_cast<unsigned>(length % 1000));
            out_ += text;
        }
        if (line.phase == 'b' || line.phase == 'e') out_ += ",\"id\":" + std::to_string(line.event);
        if (line.phase == 'i') out_ += event.kind == SL_TRACE_EPOCH_END ? ",\"s\":\"g\"" : ",\"s\":\"t\"";
        if (line.phase != 'e') out_ += ",\"args\":{" + args_of(event) + "}";
        out_ += "}";
    }

  private:
    void begin() {
        out_ += first_ ? "\n" : ",\n";
        first_ = false;
    }
    static std::string quoted(const std::string& text) {
        return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }

    std::string& out_;
    bool first_ = true;
};

void write_names(Writer& writer, const TraceInput& input, const std::set<std::uint32_t>& streams) {
    writer.name({kDaemon, 0}, "process_name", "speedyloaderd");
    writer.name({kDaemon, kReaderTrack}, "thread_name", "reader");
    for (std::uint32_t i = 0; i < input.assemblers; ++i)
        writer.name({kDaemon, kAssemblerTrack + i}, "thread_name", "assembler " + std::to_string(i));
    writer.name({kWorkers, 0}, "process_name", "workers");
    for (std::uint32_t i = 0; i < input.workers; ++i)
        writer.name({kWorkers, i + 1ULL}, "thread_name", "worker " + std::to_string(i));
    for (std::uint32_t id : streams) {
        const auto known = input.streams.find(id);
        const std::string about = known == input.streams.end() ? "(closed)" : known->second;
        writer.name({kStreams + id, 0}, "process_name", "stream " + std::to_string(id) + " " + about);
        writer.name({kStreams + id, kWaitTrack}, "thread_name", "consumer");
        writer.name({kStreams + id, kFullTrack}, "thread_name", "ring full: waits for the consumer");
        writer.name({kStreams + id, kLeaseTrack}, "thread_name", "batches held");
    }
}

}  // namespace

std::string trace_json(const TraceInput& input) {
    const std::vector<Line> lines = lines_of(input.events, input.from_ns);
    std::set<std::uint32_t> streams;
    for (const Line& line : lines)
        streams.insert(input.events[line.event].stream);
    std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    out.reserve(lines.size() * 200);
    Writer writer(out);
    write_names(writer, input, streams);
    const std::uint64_t origin = lines.empty() ? 0 : lines.front().time_ns;
    for (const Line& line : lines)
        writer.line(line, input.events[line.event], origin);
    out += "\n]}\n";
    return out;
}

}  // namespace sl::cli
