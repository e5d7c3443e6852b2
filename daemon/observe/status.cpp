#include "daemon/observe/status.h"

#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace sl {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFailuresShown = 1000;

double own_cpu_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// File names may be any bytes; JSON wants UTF-8: what is not is shown replaced.
std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of the thread that asks, which is the conductor's.
double thread_cpu_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

double ratio(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json lane_json(const sl_shm_stats& stats) {
    constexpr const char* kNames[] = {"light", "medium", "heavy"};
    Json lanes = Json::object();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[kNames[lane]] = {
            {"samples", stats.lane_samples[lane]},
            {"mean_ms", ratio(stats.lane_decode_ns[lane], stats.lane_samples[lane]) * 1e-6}};
    }
    return lanes;
}

// What speedyctl verdict compares two of; busy is wall time, since the start.
Json stages_json(const Conductor& conductor) {
    const StageTotals totals = conductor.trace().totals();
    return {{"read",
             {{"operations", totals.reads},
              {"busy_s", seconds(totals.reading_ns)},
              {"operations_s", seconds(totals.read_ns)}}},
            {"decode",
             {{"servers", conductor.workers().count()},
              {"samples", totals.decodes},
              {"busy_s", seconds(totals.decode_ns)},
              {"cpu_s", seconds(totals.decode_cpu_ns)}}},
            {"assemble",
             {{"servers", conductor.trace().assemblers()},
              {"rows", totals.rows},
              {"busy_s", seconds(totals.row_ns)}}},
            {"conductor", {{"servers", 1}, {"busy_s", thread_cpu_seconds()}}}};
}

Json consumer_json(const Stream& stream) {
    const BatchRing& ring = stream.ring();
    return {{"waits", ring.client_waits_since() != 0},
            {"waited_s", seconds(ring.client_waited_ns())},
            {"keeps_waits", ring.client_keeps_waits()},
            {"found_empty", ring.found_empty()},
            {"waited_for_s", seconds(stream.waited_for_consumer_ns())}};
}

Json slowest_json(const Stream& stream) {
    Json samples = Json::array();
    for (const SlowSample& sample : stream.flow.slowest.samples()) {
        std::string path;
        stream.dataset().path(sample.sample_id, path);
        samples.push_back({{"sample_id", sample.sample_id},
                           {"path", path},
                           {"ms", static_cast<double>(sample.cpu_ns) * 1e-6},
                           {"predicted_ms", sample.predicted_ns * 1e-6}});
    }
    return samples;
}

Json errors_json(const PredictionErrors& errors) {
    return {{"samples", errors.samples},
            {"mape", errors.mape()},
            {"bias", errors.bias()},
            {"class_errors", errors.class_error()}};
}

Json prediction_json(const Stream& stream) {
    const sl_shm_stats& stats = stream.ring().stats();
    const Predictor& predictor = stream.predictor();
    const PredictionReport& report = predictor.report();
    const CostClasses& classes = predictor.model().classes();
    return {{"mape", ratio(stats.absolute_error_ppm, stats.predicted) * 1e-6},
            {"class_errors", ratio(stats.class_errors, stats.predicted)},
            {"rank_correlation", report.rank_correlation()},
            {"start", errors_json(report.start())},
            {"first_epoch", errors_json(report.first_epoch())},
            {"warm", errors_json(report.warm())},
            {"typical_ms", predictor.typical_ns() * 1e-6},
            {"medium_from_ms", classes.medium_from_ns() * 1e-6},
            {"heavy_from_ms", classes.heavy_from_ns() * 1e-6},
            {"samples_known", predictor.model().history().known()}};
}

Json stream_json(const Stream& stream) {
    const sl_shm_stats& stats = stream.ring().stats();
    return {{"id", stream.id()},
            {"dataset", dataset_name(stream.spec())},
            {"samples_in_dataset", stream.dataset().size()},
            {"policy", stream.spec().order_policy == OrderPolicy::kStrict ? "strict" : "ready"},
            {"batch_size", stream.spec().batch.size},
            {"slots", stream.ring().layout().slot_count},
            {"leased", stream.ring().leased()},
            {"unread", stream.ring().unread()},
            {"memory_bytes", stream.memory_bytes()},
            {"batches", stats.batches},
            {"samples", stats.samples},
            {"failed", stats.failed},
            {"substituted", stats.substituted},
            {"decode_warnings", stats.warnings},
            {"retried", stats.retried},
            {"bytes_read", stats.bytes_read},
            {"decode_cpu_seconds", static_cast<double>(stats.decode_ns) * 1e-9},
            {"lanes", lane_json(stats)},
            {"prediction", prediction_json(stream)},
            {"slowest", slowest_json(stream)},
            {"waits_for_consumer", stream.waits_for_consumer()},
            {"consumer", consumer_json(stream)},
            {"stopped", stream.stopped()}};
}

Json account_json(std::uint64_t epoch, const EpochAccount& account) {
    return {{"epoch", epoch},
            {"planned", account.planned},
            {"delivered", account.delivered},
            {"failed", account.failed},
            {"substituted", account.substituted},
            {"padding", account.padding},
            {"dropped", account.dropped},
            {"missing", account.missing},
            {"repeated", account.repeated},
            {"resumed_at", account.resumed_at},
            {"complete", account.closed}};
}

Json failure_json(const Failure& failure) {
    Json json = {{"sample_id", failure.sample_id},
                 {"path", failure.path},
                 {"kind", to_string(failure.error.kind)},
                 {"reason", failure.error.message},
                 {"epoch", failure.epoch},
                 {"batch", failure.batch},
                 {"row", failure.row}};
    json["offset"] = failure.error.offset == kNoOffset ? Json() : Json(failure.error.offset);
    json["errno"] = failure.error.os_errno == 0 ? Json() : Json(failure.error.os_errno);
    json["substitute"] = failure.substitute < 0 ? Json() : Json(failure.substitute);
    return json;
}

Json scan_json(const ScanReport& report) {
    Json json = {{"directories", report.directories}};
    for (std::size_t i = 0; i < report.skipped.size(); ++i) {
        const auto& skipped = report.skipped[i];
        json[std::string(to_string(static_cast<SkipReason>(i)))] = {{"count", skipped.count},
                                                                    {"examples", skipped.examples}};
    }
    return json;
}

// What stands for a manifest in a report: whether an earlier scan's was used, or why not.
Json manifest_json(const ManifestUse& use) {
    return {{"used", use.used}, {"kept", use.kept}, {"path", use.path}, {"note", use.note}};
}

// What the scan of a folder left out, and its manifest.
Json folder_json(const FolderSource& folder) {
    return {{"skipped_files", scan_json(folder.report())},
            {"manifest", manifest_json(folder.manifest_use())}};
}

Json parts_json(const Stream& stream) {
    Json parts = Json::array();
    for (const Dataset::Part& part : stream.dataset().parts()) {
        Json json = {{"path", stream.spec().parts[parts.size()].path},
                     {"first_id", part.first_id},
                     {"samples_in_folder", part.folder.size()},
                     {"selected", part.selection->size()},
                     {"samples", part.samples}};
        json.update(folder_json(part.folder));
        parts.push_back(std::move(json));
    }
    return parts;
}

}  // namespace

std::string status_json(const DaemonStatus& daemon, const Conductor& conductor) {
    Json workers = Json::array();
    for (const WorkerStatus& worker : conductor.workers().status()) {
        workers.push_back({{"pid", worker.pid}, {"held", worker.held}, {"completed", worker.completed}});
    }
    Json sessions = Json::array();
    for (const SessionStatus& session : daemon.sessions) {
        sessions.push_back({{"pid", session.pid},
                            {"uid", session.uid},
                            {"program", session.program},
                            {"streams", session.streams}});
    }
    Json streams = Json::array();
    for (const auto& [id, stream] : conductor.streams()) {
        if (!stream->flow.closing) streams.push_back(stream_json(*stream));
    }
    Json scans = Json::array();
    for (const ScanStatus& scan : daemon.scans) {
        scans.push_back({{"path", scan.path},
                         {"running", scan.running},
                         {"clients", scan.clients},
                         {"directories", scan.directories},
                         {"images", scan.images}});
    }
    std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - daemon.started;
    Json json = {{"version", SL_VERSION},
                 {"pid", ::getpid()},
                 {"socket", daemon.socket},
                 {"private", daemon.is_private},
                 {"uptime_s", uptime.count()},
                 {"backend", conductor.reader().backend()},
                 {"reader", conductor.reader().description()},
                 {"reader_note", conductor.reader_note()},
                 {"workers", workers},
                 {"stages", stages_json(conductor)},
                 {"worker_deaths", conductor.workers().deaths()},
                 {"cpu_seconds", own_cpu_seconds() + conductor.workers().cpu_seconds()},
                 {"daemon_cpu_seconds", own_cpu_seconds()},
                 {"memory",
                  {{"budget", conductor.budget().total()},
                   {"reserved", conductor.budget().reserved()},
                   {"input_capacity", conductor.input().capacity()},
                   {"input_used", conductor.input().used()}}},
                 {"sessions", sessions},
                 {"scans", scans},
                 {"scans_made", daemon.scans_made},
                 {"manifests_used", daemon.manifests_used},
                 {"streams", streams}};
    return dump(json);
}

std::string report_json(const Stream& stream) {
    Json epochs = Json::array();
    for (const auto& [epoch, account] : stream.ledger().accounts())
        epochs.push_back(account_json(epoch, account));
    Json failures = Json::array();
    for (const Failure& failure : stream.ledger().failures()) {
        if (failures.size() == kFailuresShown) break;
        failures.push_back(failure_json(failure));
    }
    const Dataset& dataset = stream.dataset();
    Json json = {{"samples", dataset.samples()},
                 {"classes", dataset.classes()},
                 {"fingerprint", dataset.fingerprint()},
                 {"epochs", epochs},
                 {"failure_count", stream.ledger().failure_count()},
                 {"failures", failures}};
    if (dataset.is_mix()) {
        json["parts"] = parts_json(stream);
    } else {
        json.update(folder_json(dataset.parts().front().folder));
    }
    json["stats"] = stream_json(stream);
    return dump(json);
}

}  // namespace sl
