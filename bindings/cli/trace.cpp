// See trace.h.
#include "bindings/cli/trace.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bindings/cli/handles.h"
#include "bindings/cli/look.h"
#include "bindings/cli/trace_json.h"

namespace sl::cli {

namespace {

StreamNames names_of(const nlohmann::json& status) {
    StreamNames names;
    if (!status.is_object()) return names;
    for (const auto& stream : status.value("streams", nlohmann::json::array()))
        names[stream.value("id", 0U)] = stream.value("dataset", "");
    return names;
}

double span_seconds(const sl_trace& trace, std::uint64_t from_ns) {
    std::uint64_t first = trace.now_ns;
    for (std::uint64_t i = 0; i < trace.count; ++i) {
        if (trace.events[i].end_ns >= from_ns) first = std::min(first, trace.events[i].begin_ns);
    }
    return static_cast<double>(trace.now_ns - first) * 1e-9;
}

bool write(const std::string& name, const std::string& text) {
    if (name == "-") {
        std::cout << text << std::flush;
        return std::cout.good();
    }
    std::ofstream file(name, std::ios::binary);
    file << text << std::flush;
    return file.good();
}

}  // namespace

int trace(const TraceOptions& options) {
    if (options.json && options.output == "-") {
        std::cerr << "speedyctl: --json and -o - both write to stdout\n";
        return kExitUsage;
    }
    Outcome<Client> client = connect_to_running(options.socket);
    if (!client) return complain(client.error());
    sl_trace trace{};
    trace.struct_size = sizeof trace;
    if (sl_client_trace(client->get(), &trace) != SL_OK) return complain({kExitFailed, last_error_text()});
    std::unique_ptr<sl_trace_event, void (*)(void*)> events(trace.events, &sl_free);

    TraceInput input{{trace.events, trace.count}, trace.workers, trace.assemblers, 0, {}};
    input.streams = names_of(nlohmann::json::parse(status_text(client->get()), nullptr, false));
    if (options.seconds) {
        const auto length = static_cast<std::uint64_t>(*options.seconds * 1e9);
        input.from_ns = trace.now_ns - std::min(trace.now_ns, length);
    }
    if (!write(options.output, trace_json(input)))
        return complain({kExitFailed, "cannot write " + options.output});
    const double seconds = span_seconds(trace, input.from_ns);
    if (options.json) {
        const nlohmann::ordered_json said = {{"file", options.output},
                                             {"seconds", seconds},
                                             {"events", trace.count},
                                             {"overwritten", trace.overwritten}};
        std::cout << said.dump() << std::endl;
    } else if (options.output != "-") {
        std::printf("%s: the last %.1f s; open it in ui.perfetto.dev\n", options.output.c_str(), seconds);
    }
    return kExitGood;
}

}  // namespace sl::cli
