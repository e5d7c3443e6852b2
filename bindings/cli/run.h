// The verb `run`: streams a spec's epochs as fast as they come and measures what a training job would feel.
//
// One thread. SIGINT ends the stream at the next batch; the summary then covers what was streamed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/handles.h"
#include "bindings/cli/spec.h"

namespace sl::cli {

struct RunOptions {
    std::string source;  // folder or spec file
    SpecChanges changes;
    std::optional<std::uint64_t> workers;        // a private daemon of its own with so many workers
    std::optional<std::uint64_t> limit_batches;  // stop after so many
    std::string socket;
    std::optional<double> reconnect;  // seconds in which a lost daemon's successor is looked for; 0: none is
    bool json = false;
    bool hash = false;
    bool ids = false;
};

// What happened. Times in seconds; `steady` runs from the first batch's arrival to the last, so that starting
// a daemon and filling the pipeline are told apart from streaming.
struct RunResult {
    std::uint64_t samples = 0;         // valid rows
    std::uint64_t steady_samples = 0;  // the same without the first batch
    std::uint64_t batches = 0;
    std::uint64_t epochs_ended = 0;
    double first_batch = 0;  // from the start of connecting
    double steady = 0;
    std::vector<double> waits;  // one a sl_next, except for the first batch
    double cpu = 0;             // daemon, workers and this program, since connecting
    sl_stats stats{};
    nlohmann::json report;
    std::vector<std::string> epoch_hashes;        // with --hash
    std::vector<std::vector<std::uint64_t>> ids;  // with --ids, an inner list an epoch
    bool ended = false;                           // by SL_END
    bool limited = false;                         // by --limit-batches
    bool interrupted = false;                     // by SIGINT
    std::string error;                            // why it stopped otherwise
};

// Failure: nothing could be streamed. A stream that stopped in its course is a result with `error`.
Outcome<RunResult> stream_epochs(const RunOptions& options);

// stream_epochs, then the summary on stdout: the exit status.
int run(const RunOptions& options);

}  // namespace sl::cli
