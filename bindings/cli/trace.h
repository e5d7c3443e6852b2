// The verb `trace`: what the running daemon did in its last seconds, as a file for ui.perfetto.dev. One
// thread; returns the exit status.
#pragma once

#include <optional>
#include <string>

namespace sl::cli {

struct TraceOptions {
    std::string output = "trace.json";  // "-": stdout
    std::optional<double> seconds;      // only the last so many
    std::string socket;
    bool json = false;  // what was written, as one JSON object on stdout
};

int trace(const TraceOptions& options);

}  // namespace sl::cli
