// See snapshot.h.
#include "bindings/cli/snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace sl::cli {

namespace {

StageCount stage(const nlohmann::json& stages, const char* name) {
    const nlohmann::json& from = stages.at(name);
    const char* done = from.contains("rows") ? "rows" : "samples";
    return {from.value("servers", 1.0), from.at("busy_s").get<double>(), from.at(done).get<double>()};
}

StreamCount stream(const nlohmann::json& from) {
    const nlohmann::json& consumer = from.at("consumer");
    const double batches = from.at("batches").get<double>();
    const double unread = std::min(batches, from.at("unread").get<double>());
    const double taken = batches == 0 ? 0 : (batches - unread) / batches;
    return {.dataset = from.at("dataset").get<std::string>(),
            .batches = batches,
            .samples = from.at("samples").get<double>() * taken,
            .waited = consumer.at("waited_s").get<double>(),
            .keeps_waits = consumer.at("keeps_waits").get<bool>(),
            .found_empty = consumer.at("found_empty").get<double>(),
            .waited_for = consumer.at("waited_for_s").get<double>(),
            .unread = unread};
}

}  // namespace

Snapshot read_snapshot(const nlohmann::json& status) {
    const nlohmann::json& stages = status.at("stages");
    Snapshot snapshot;
    snapshot.time = status.at("uptime_s").get<double>();
    snapshot.read = stage(stages, "read");
    snapshot.decode = stage(stages, "decode");
    snapshot.assemble = stage(stages, "assemble");
    snapshot.conductor = stage(stages, "conductor");
    snapshot.reads = stages["read"].at("operations").get<double>();
    snapshot.read_sum = stages["read"].at("operations_s").get<double>();
    snapshot.decode_cpu = stages["decode"].at("cpu_s").get<double>();
    for (const nlohmann::json& from : status.at("streams"))
        snapshot.streams[from.at("id").get<std::uint64_t>()] = stream(from);
    return snapshot;
}

void add_machine(Snapshot& snapshot) {
    snapshot.cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
    std::ifstream file("/proc/stat");
    std::string word;
    double user = 0;
    double nice = 0;
    double system = 0;
    double idle = 0;
    double waiting = 0;  // for a disk: as idle as idle
    if (file >> word >> user >> nice >> system >> idle >> waiting)
        snapshot.idle = (idle + waiting) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace sl::cli
