// The end of a run in words and in JSON. Pure functions of the result.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>

#include "bindings/cli/run.h"

namespace sl::cli {

// Figures that both forms show, worked out once.
struct Figures {
    double seconds = 0;  // steady; with fewer than two batches the whole time
    double samples_per_s = 0;
    double cpu_s_per_1k = 0;
    double wait_p50_ms = 0;
    double wait_p99_ms = 0;
    double wait_total_s = 0;
    double mape = 0;  // mean |predicted - actual| / actual, a fraction
    std::array<double, SL_LANES> lane_mean_ms{};
};

Figures figures(const RunResult& result);

void print_summary(std::ostream& out, const RunResult& result);

// One object. Keys: samples, batches, seconds, samples_per_s, cpu_s_per_1k, first_batch_s, wait_p50_ms,
// wait_p99_ms, wait_total_s, lanes, mape, failed, substituted, accounted, ended, epochs, failures,
// failure_count, skipped_files; error where there is one; hash and epoch_hashes, ids where asked for.
// accounted is null for a run that --limit-batches cut short. hash is the only epoch's digest, or the digest
// of the epochs' digests.
nlohmann::json summary_json(const RunResult& result, const RunOptions& options);

}  // namespace sl::cli
