// The verdict: is loading the bottleneck, which stage, and what would one more worker or core give.
//
// Pure arithmetic over two snapshots, by operational analysis (Denning and Buzen, "The Operational Analysis
// of Queueing Network Models", 1978), which holds for any system that is watched for a while:
//   utilisation law   U = busy time / (servers x time); demand D = busy time / samples; so U = X D / servers
//   bottleneck law    no stage can pass on more than servers / D samples a second; neither can the whole
//
// The consumer comes first: if it hardly waits, loading is not the bottleneck, whatever is busy. If it waits,
// the bottleneck is the last stage that is saturated: what comes after it starves, and what comes before it
// runs ahead until it is full, and may look busy too (reads under way are busy at any depth).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/snapshot.h"

namespace sl::cli {

enum class Stage { kNone, kConsumer, kConductor, kAssemble, kDecode, kRead };
const char* name_of(Stage stage);

struct StageLoad {
    Stage stage = Stage::kNone;
    double servers = 1;
    double utilisation = 0;  // 0 to 1
    double demand = 0;       // seconds of one server a sample; 0: no sample passed
    double most = 0;         // samples/s that it could pass on; 0: unknown
};

struct StreamLoad {
    std::uint64_t id = 0;
    std::string dataset;
    double samples_per_s = 0;
    double wait_share = 0;  // of the time the job was without a batch that it had asked for
    double full_share = 0;  // of the time finished work waited for the job
};

// What a change would give at most; gain is against now, 1: nothing.
struct Bound {
    double samples_per_s = 0;
    double gain = 1;
};

struct Verdict {
    double seconds = 0;
    Stage bottleneck = Stage::kNone;
    bool saturated = false;      // it is busy all the time; else nothing is, and it is the busiest
    double samples_per_s = 0;    // taken by the jobs
    double wait_share = 0;       // of the stream that waits most
    double loader_most = 0;      // what the stages could do at most, together; 0: unknown
    double reads_under_way = 0;  // mean
    double read_seconds = 0;     // mean length of an open or read
    double decode_cpu = 0;       // CPU seconds of a worker a sample
    double idle_cores = 0;
    std::vector<StageLoad> stages;  // the loader's, the last one first
    std::vector<StreamLoad> streams;
    Bound one_more_worker;  // on the cores there are
    Bound one_more_core;    // with a worker on it
};

Verdict judge(const Snapshot& before, const Snapshot& after);

// Two or three plain sentences.
std::vector<std::string> sentences(const Verdict& verdict);
nlohmann::ordered_json verdict_json(const Verdict& verdict);

}  // namespace sl::cli
