// Status and reports as JSON documents, for speedyctl and for programs.
//
// Called by the broker on the conductor's thread; reads, changes nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/stream/conductor.h"

namespace sl {

struct SessionStatus {
    pid_t pid = 0;
    uid_t uid = 0;
    std::string program;
    std::vector<std::uint64_t> streams;
};

// A dataset's scan under way, or waiting for one that is.
struct ScanStatus {
    std::optional<uid_t> uid;  // for whom; none: for the daemon's own user
    std::string path;
    bool running = false;
    std::uint64_t clients = 0;      // that wait for it
    std::uint64_t directories = 0;  // so far
    std::uint64_t images = 0;
};

// For whom a status or a trace is: what is other users' is left out. None: all of it.
struct Viewer {
    uid_t uid = 0;
    std::set<std::uint64_t> streams;  // of its clients
};

struct DaemonStatus {
    std::string socket;
    bool is_private = false;
    std::chrono::steady_clock::time_point started;
    std::vector<SessionStatus> sessions;
    std::vector<ScanStatus> scans;
    std::uint64_t scans_made = 0;      // since the daemon's start: directories listed
    std::uint64_t manifests_used = 0;  // an earlier scan held
    std::optional<Viewer> viewer;
};

// The whole daemon: reader back end, workers, memory, sessions, streams, scans, CPU seconds.
std::string status_json(const DaemonStatus& daemon, const Conductor& conductor);

// One stream: an account per epoch, each failure with its reason, what the scan of each folder left out.
std::string report_json(const Stream& stream);

}  // namespace sl
