// What the daemon has done so far, taken from its status: two of them, some seconds apart, say what it does.
//
// Used by the verbs `verdict` and `top`. One thread. A status of another version lacks keys, which throws
// what the JSON library throws; main says it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace sl::cli {

// Since the daemon's start, of all whom the stage serves: the workers are this user's only, the others
// everybody's. Busy is wall time in seconds, summed over the servers.
struct StageCount {
    double servers = 1;
    double busy = 0;
    double samples = 0;  // decoded; of the assembler, rows
};

struct StreamCount {
    std::string dataset;
    double batches = 0;
    double samples = 0;       // of batches that the client has taken: what lies in the ring comes in bursts
    double waited = 0;        // the client, for a batch
    bool keeps_waits = true;  // else only `found_empty` tells
    double found_empty = 0;   // batches published when all before them had been taken
    double waited_for = 0;    // finished work, for the client
    double unread = 0;
};

struct Snapshot {
    double time = 0;
    StageCount read;  // busy: with at least one under way
    StageCount decode;
    StageCount assemble;
    StageCount conductor;  // CPU time of the thread
    double reads = 0;      // opens and reads
    double read_sum = 0;   // of their lengths
    double decode_cpu = 0;
    std::map<std::uint64_t, StreamCount> streams;
    double cores = 1;  // of the machine, and the seconds they have idled
    double idle = 0;
};

// The daemon's part; the machine's is left as it is.
Snapshot read_snapshot(const nlohmann::json& status);
// Adds the machine's cores and their idle time, from /proc/stat; without it no core is known to be idle.
void add_machine(Snapshot& snapshot);

}  // namespace sl::cli
