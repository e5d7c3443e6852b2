// The status of the daemon, as its viewer may see it. See status.h; a stream's report is in report.cpp.
#include "daemon/observe/status.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "daemon/observe/stream_json.h"
#include "daemon/plan/spec_names.h"

namespace sl {

namespace {

double cpu_seconds_of(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

// Native crews that the viewer sees.
std::vector<const Crew*> native_crews(const Conductor& conductor, const Viewer& viewer) {
    std::vector<const Crew*> crews;
    for (const auto& [key, crew] : conductor.crews().all()) {
        if (crew->is_native() && viewer.sees(crew->uid)) crews.push_back(crew.get());
    }
    return crews;
}

// Workers that rest are no servers, unless all do.
std::uint32_t decode_servers(const std::vector<const Crew*>& crews) {
    std::uint32_t busy = 0;
    std::uint32_t most = 0;
    for (const Crew* crew : crews) {
        busy += crew->streams > 0 ? crew->workers() : 0;
        most = std::max(most, crew->workers());
    }
    return std::max({busy, most, 1U});
}

// What speedyctl verdict compares two of; busy is wall time, since the start. Reader, assembler and conductor
// serve all users; of the workers only the viewer's count. `samples`: decoded by all that the stage serves.
Json stages_json(const Conductor& conductor, const Viewer& viewer) {
    const StageTotals totals = conductor.trace().totals();
    const auto crews = native_crews(conductor, viewer);
    Crew::Decoded decoded{totals.decodes, totals.decode_ns, totals.decode_cpu_ns};
    if (!viewer.sees_all) decoded = crews.empty() ? Crew::Decoded{} : crews.front()->decoded;
    return {{"read",
             {{"operations", totals.reads},
              {"samples", totals.decodes},
              {"busy_s", seconds(totals.reading_ns)},
              {"operations_s", seconds(totals.read_ns)}}},
            {"decode",
             {{"servers", decode_servers(crews)},
              {"samples", decoded.samples},
              {"busy_s", seconds(decoded.wall_ns)},
              {"cpu_s", seconds(decoded.cpu_ns)}}},
            {"assemble",
             {{"servers", conductor.trace().assemblers()},
              {"rows", totals.rows},
              {"busy_s", seconds(totals.row_ns)}}},
            {"conductor",
             {{"servers", 1},
              {"samples", totals.decodes},
              {"busy_s", cpu_seconds_of(CLOCK_THREAD_CPUTIME_ID)}}}};  // of the thread that asks: its own
}

void add_workers(Json& workers, const Crew& crew) {
    for (const WorkerStatus& worker : crew.pool->status()) {
        workers.push_back(
            {{"pid", worker.pid}, {"uid", crew.uid}, {"held", worker.held}, {"completed", worker.completed}});
    }
}

Json domains_json(const std::vector<const Crew*>& crews) {
    Json domains = Json::array();
    for (const Crew* crew : crews) {
        domains.push_back({{"uid", crew->uid},
                           {"workers", crew->workers()},
                           {"streams", crew->streams},
                           {"worker_deaths", crew->pool->deaths()},
                           {"cpu_seconds", crew->pool->cpu_seconds()},
                           {"input_capacity", crew->domain->input.capacity()},
                           {"input_used", crew->domain->input.used()}});
    }
    return domains;
}

// Guest workers, apart from the daemon's own: by crew, 16 hexadecimal digits.
Json crews_json(const Conductor& conductor, const Viewer& viewer) {
    Json crews = Json::array();
    for (const auto& [key, crew] : conductor.crews().all()) {
        if (crew->is_native() || !viewer.sees(crew->uid)) continue;
        Json guests = Json::array();
        add_workers(guests, *crew);
        crews.push_back({{"crew", hex(key.number)},
                         {"uid", crew->uid},
                         {"workers", crew->workers()},
                         {"streams", crew->streams},
                         {"lost", crew->pool->deaths()},
                         {"cpu_seconds", crew->pool->cpu_seconds()},
                         {"guests", guests}});
    }
    return crews;
}

Json memory_json(const DaemonStatus& daemon, const Conductor& conductor) {
    const Crews::Input input = conductor.crews().input();
    return {{"budget", conductor.budget().total()},
            {"reserved", conductor.budget().reserved()},
            {"kept", daemon.kept_bytes},
            {"input_capacity", input.capacity},
            {"input_used", input.used}};
}

bool sees_one(const Viewer& viewer, const std::set<uid_t>& users) {
    return viewer.sees_all || users.contains(viewer.uid);
}

// Adds what the viewer sees, and counts the rest: `others`.
void add_clients(Json& json, const DaemonStatus& daemon, const Conductor& conductor, const Viewer& viewer) {
    Json sessions = Json::array();
    for (const SessionStatus& session : daemon.sessions) {
        if (!viewer.sees(session.uid)) continue;
        sessions.push_back({{"pid", session.pid},
                            {"uid", session.uid},
                            {"program", session.program},
                            {"streams", session.streams}});
    }
    Json scans = Json::array();
    for (const ScanStatus& scan : daemon.scans) {
        if (!sees_one(viewer, scan.users)) continue;
        scans.push_back({{"path", scan.path},
                         {"running", scan.running},
                         {"clients", scan.clients},
                         {"directories", scan.directories},
                         {"images", scan.images}});
    }
    Json streams = Json::array();
    std::size_t open = 0;
    for (const auto& [id, stream] : conductor.streams()) {
        if (stream->flow.closing) continue;
        ++open;
        if (viewer.sees(stream->flow.crew->uid)) streams.push_back(stream_json(*stream));
    }
    json["others"] = {{"sessions", daemon.sessions.size() - sessions.size()},
                      {"scans", daemon.scans.size() - scans.size()},
                      {"streams", open - streams.size()}};
    json["sessions"] = std::move(sessions);
    json["scans"] = std::move(scans);
    json["scans_made"] = daemon.scans_made;
    json["manifests_used"] = daemon.manifests_used;
    json["streams"] = std::move(streams);
}

}  // namespace

Viewer Viewer::of(uid_t uid) {
    return {uid, uid == 0 || uid == ::geteuid()};
}

std::string status_json(const DaemonStatus& daemon, const Conductor& conductor, const Viewer& viewer) {
    const auto crews = native_crews(conductor, viewer);
    Json workers = Json::array();
    for (const Crew* crew : crews)
        add_workers(workers, *crew);
    const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - daemon.started;
    const double daemon_cpu_seconds = cpu_seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    Json json = {{"version", SL_VERSION},
                 {"pid", ::getpid()},
                 {"socket", daemon.socket},
                 {"private", daemon.is_private},
                 {"uptime_s", uptime.count()},
                 {"backend", conductor.reader().backend()},
                 {"reader", conductor.reader().description()},
                 {"reader_note", conductor.reader_note()},
                 {"workers", workers},
                 {"sandbox", conductor.sandboxed()},
                 {"domains", domains_json(crews)},
                 {"crews", crews_json(conductor, viewer)},
                 {"stages", stages_json(conductor, viewer)},
                 {"worker_deaths", conductor.crews().worker_deaths()},
                 {"cpu_seconds", daemon_cpu_seconds + conductor.crews().cpu_seconds()},
                 {"daemon_cpu_seconds", daemon_cpu_seconds},
                 {"memory", memory_json(daemon, conductor)}};
    add_clients(json, daemon, conductor, viewer);
    return dump(json);
}

}  // namespace sl
