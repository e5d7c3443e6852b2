// The summary for programs; see summary.h.
#include "bindings/cli/account.h"
#include "bindings/cli/sha256.h"
#include "bindings/cli/summary.h"

namespace sl::cli {

namespace {

nlohmann::json member(const nlohmann::json& report, const char* key, nlohmann::json otherwise) {
    if (!report.is_object()) return otherwise;
    auto found = report.find(key);
    return found == report.end() ? otherwise : *found;
}

nlohmann::json lane(const RunResult& result, const Figures& shown, std::size_t index) {
    return {{"samples", result.stats.lane_samples[index]}, {"mean_ms", shown.lane_mean_ms[index]}};
}

std::string whole_hash(const std::vector<std::string>& epochs) {
    if (epochs.size() == 1) return epochs.front();
    Sha256 sha;
    for (const std::string& epoch : epochs)
        sha.update(std::as_bytes(std::span(epoch)));
    return sha.finish();
}

}  // namespace

nlohmann::json summary_json(const RunResult& result, const RunOptions& options) {
    using nlohmann::json;
    Figures shown = figures(result);
    json made = {
        {"samples", result.samples},
        {"batches", result.batches},
        {"seconds", shown.seconds},
        {"samples_per_s", shown.samples_per_s},
        {"cpu_s_per_1k", shown.cpu_s_per_1k},
        {"first_batch_s", result.first_batch},
        {"wait_p50_ms", shown.wait_p50_ms},
        {"wait_p99_ms", shown.wait_p99_ms},
        {"wait_total_s", shown.wait_total_s},
        {"lanes",
         {{"light", lane(result, shown, 0)},
          {"medium", lane(result, shown, 1)},
          {"heavy", lane(result, shown, 2)}}},
        {"mape", shown.mape},
        {"failed", result.stats.failed},
        {"substituted", result.stats.substituted},
        {"reconnects", result.stats.reconnects},
        {"accounted", result.limited ? json() : json(result.ended && accounts_for_all(result.report))},
        {"ended", result.ended},
        {"interrupted", result.interrupted},
        {"epochs", member(result.report, "epochs", json::array())},
        {"failures", member(result.report, "failures", json::array())},
        {"failure_count", member(result.report, "failure_count", 0)},
        {"skipped_files", member(result.report, "skipped_files", json::object())}};
    if (!result.error.empty()) made["error"] = result.error;
    if (options.hash) {
        made["epoch_hashes"] = result.epoch_hashes;
        made["hash"] = whole_hash(result.epoch_hashes);
    }
    if (options.ids) made["ids"] = result.ids;
    return made;
}

}  // namespace sl::cli
