// The arithmetic of the verdict; see verdict.h. What it says is in verdict_text.cpp.
#include "bindings/cli/verdict.h"

#include <algorithm>
#include <limits>

namespace sl::cli {

namespace {

constexpr double kWaits = 0.05;      // from here on a job's waiting is worth somebody's time
constexpr double kSaturated = 0.85;  // scheduling and hand-over keep even a full stage from 1

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

StageLoad load(Stage stage, const StageCount& before, const StageCount& after, double seconds) {
    StageLoad load{.stage = stage, .servers = after.servers};
    const double busy = std::max(0.0, after.busy - before.busy);
    const double samples = after.samples - before.samples;
    load.utilisation = std::min(1.0, busy / (after.servers * seconds));
    if (samples > 0) load.demand = busy / samples;
    if (load.demand > 0) load.most = after.servers / load.demand;
    return load;
}

StreamLoad stream_load(std::uint64_t id, const StreamCount& before, const StreamCount& after,
                       double seconds) {
    StreamLoad load{.id = id, .dataset = after.dataset};
    load.samples_per_s = std::max(0.0, after.samples - before.samples) / seconds;
    const double batches = after.batches - before.batches;
    load.wait_share = after.keeps_waits ? (after.waited - before.waited) / seconds
                      : batches > 0     ? (after.found_empty - before.found_empty) / batches
                                        : 0;
    load.wait_share = std::clamp(load.wait_share, 0.0, 1.0);
    load.full_share = std::clamp((after.waited_for - before.waited_for) / seconds, 0.0, 1.0);
    return load;
}

double bound_of(const StageLoad& load) {
    return load.most > 0 ? load.most : kUnbounded;
}

// What the jobs could take if they never waited: their own work goes on for the rest of the time.
double consumers_most(const Verdict& verdict) {
    double sum = 0;
    for (const StreamLoad& stream : verdict.streams) {
        if (stream.samples_per_s == 0) continue;
        if (stream.wait_share >= 1) return kUnbounded;
        sum += stream.samples_per_s / (1 - stream.wait_share);
    }
    return sum > 0 ? sum : kUnbounded;
}

const StageLoad& find(const Verdict& verdict, Stage stage) {
    return *std::ranges::find(verdict.stages, stage, &StageLoad::stage);
}

void choose_bottleneck(Verdict& verdict) {
    if (verdict.streams.empty()) return;
    if (verdict.wait_share < kWaits) {
        verdict.bottleneck = Stage::kConsumer;
        return;
    }
    auto full = std::ranges::find_if(verdict.stages,
                                     [](const StageLoad& stage) { return stage.utilisation >= kSaturated; });
    verdict.saturated = full != verdict.stages.end();
    if (!verdict.saturated) full = std::ranges::max_element(verdict.stages, {}, &StageLoad::utilisation);
    verdict.bottleneck = full->stage;
}

void look_ahead(Verdict& verdict, double cores) {
    const double now = verdict.samples_per_s;
    verdict.one_more_worker = verdict.one_more_core = {now, 1};
    if (verdict.bottleneck != Stage::kDecode || now <= 0) return;
    const StageLoad& decode = find(verdict, Stage::kDecode);
    if (decode.demand <= 0) return;
    double others = consumers_most(verdict);
    for (const StageLoad& stage : verdict.stages) {
        if (stage.stage != Stage::kDecode) others = std::min(others, bound_of(stage));
    }
    auto gain = [&](double most) {
        most = std::max(now, std::min(most, others));
        return Bound{most, most / now};
    };
    verdict.one_more_worker = gain((decode.servers + std::min(1.0, verdict.idle_cores)) / decode.demand);
    // All that runs on the machine, per sample, has one core more to run on.
    const double cpu = std::max(1e-9, cores - verdict.idle_cores) / now;
    const double free_demand = std::min(decode.demand, std::max(verdict.decode_cpu, 1e-9));
    verdict.one_more_core = gain(std::min((cores + 1) / cpu, (decode.servers + 1) / free_demand));
}

}  // namespace

Verdict judge(const Snapshot& before, const Snapshot& after) {
    Verdict verdict;
    verdict.seconds = std::max(after.time - before.time, 1e-6);
    const double seconds = verdict.seconds;
    for (const auto& [id, now] : after.streams) {
        const auto earlier = before.streams.find(id);
        const StreamCount then = earlier == before.streams.end() ? StreamCount{} : earlier->second;
        const StreamLoad load = stream_load(id, then, now, seconds);
        // It has nothing left to take and does not ask.
        if (now.batches == then.batches && now.unread == 0 && load.wait_share == 0) continue;
        verdict.samples_per_s += load.samples_per_s;
        verdict.wait_share = std::max(verdict.wait_share, load.wait_share);
        verdict.streams.push_back(load);
    }
    const double decoded = after.decode.samples - before.decode.samples;
    verdict.stages = {load(Stage::kConductor, before.conductor, after.conductor, seconds),
                      load(Stage::kAssemble, before.assemble, after.assemble, seconds),
                      load(Stage::kDecode, before.decode, after.decode, seconds),
                      load(Stage::kRead, before.read, after.read, seconds)};
    double most = kUnbounded;
    for (const StageLoad& stage : verdict.stages)
        most = std::min(most, bound_of(stage));
    if (most < kUnbounded) verdict.loader_most = most;
    const double reads = after.reads - before.reads;
    verdict.reads_under_way = (after.read_sum - before.read_sum) / seconds;
    if (reads > 0) verdict.read_seconds = (after.read_sum - before.read_sum) / reads;
    if (decoded > 0) verdict.decode_cpu = (after.decode_cpu - before.decode_cpu) / decoded;
    verdict.idle_cores = std::clamp((after.idle - before.idle) / seconds, 0.0, after.cores);
    choose_bottleneck(verdict);
    look_ahead(verdict, after.cores);
    return verdict;
}

}  // namespace sl::cli
