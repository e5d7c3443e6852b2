#include "daemon/observe/status.h"

#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "daemon/observe/stream_json.h"
#include "daemon/plan/spec_names.h"

namespace sl {

namespace {

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

Json workers_json(const WorkerPool& pool) {
    Json workers = Json::array();
    for (const WorkerStatus& worker : pool.status())
        workers.push_back({{"pid", worker.pid}, {"held", worker.held}, {"completed", worker.completed}});
    return workers;
}

// Guest workers, apart from the daemon's own: by crew, 16 hexadecimal digits.
Json crews_json(const Conductor& conductor, const std::optional<Viewer>& viewer) {
    Json crews = Json::array();
    for (const auto& [number, crew] : conductor.crews().all()) {
        if (crew->is_native() || (viewer && viewer->uid != crew->uid)) continue;
        crews.push_back({{"crew", hex(number)},
                         {"uid", crew->uid},
                         {"workers", crew->workers()},
                         {"streams", crew->streams},
                         {"lost", crew->pool->deaths()},
                         {"cpu_seconds", crew->pool->cpu_seconds()},
                         {"guests", workers_json(*crew->pool)}});
    }
    return crews;
}

}  // namespace

std::string status_json(const DaemonStatus& daemon, const Conductor& conductor) {
    const std::optional<Viewer>& viewer = daemon.viewer;
    Json sessions = Json::array();
    for (const SessionStatus& session : daemon.sessions) {
        if (viewer && viewer->uid != session.uid) continue;
        sessions.push_back({{"pid", session.pid},
                            {"uid", session.uid},
                            {"program", session.program},
                            {"streams", session.streams}});
    }
    Json streams = Json::array();
    for (const auto& [id, stream] : conductor.streams()) {
        if (stream->flow.closing || (viewer && !viewer->streams.contains(id))) continue;
        streams.push_back(stream_json(*stream));
    }
    Json scans = Json::array();
    for (const ScanStatus& scan : daemon.scans) {
        if (viewer && viewer->uid != scan.uid) continue;
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
                 {"workers", workers_json(conductor.workers())},
                 {"crews", crews_json(conductor, viewer)},
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
    } else if (!stream.is_items()) {
        json.update(folder_json(dataset.parts().front().folder));
    }
    json["stats"] = stream_json(stream);
    return dump(json);
}

}  // namespace sl
