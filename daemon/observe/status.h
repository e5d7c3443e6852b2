// Status and reports as JSON documents, for speedyctl and for programs.
//
// Called by the broker on the conductor's thread; reads, changes nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "daemon/stream/conductor.h"

namespace sl {

// Who asks. What is another user's is named to the daemon's own user and to root only: the others see how
// much of it there is, but no path, program, process or sample.
struct Viewer {
    uid_t uid = 0;
    bool sees_all = false;
    static Viewer of(uid_t uid);
    [[nodiscard]] bool sees(uid_t whose) const { return sees_all || whose == uid; }
};

struct SessionStatus {
    pid_t pid = 0;
    uid_t uid = 0;
    std::string program;
    std::vector<std::uint64_t> streams;
};

// A dataset's scan under way, or waiting for one that is.
struct ScanStatus {
    std::string path;
    bool running = false;
    std::uint64_t clients = 0;      // that wait for it
    std::uint64_t directories = 0;  // so far
    std::uint64_t images = 0;
    std::set<uid_t> users;  // of the clients
};

struct DaemonStatus {
    std::string socket;
    bool is_private = false;
    std::chrono::steady_clock::time_point started;
    std::vector<SessionStatus> sessions;
    std::vector<ScanStatus> scans;
    std::uint64_t scans_made = 0;      // since the daemon's start: directories listed
    std::uint64_t manifests_used = 0;  // an earlier scan held
    std::uint64_t kept_bytes = 0;      // of closed streams, which clients keep; as far as the viewer sees
};

// The daemon: reader back end, workers, memory, sessions, streams, scans, CPU seconds.
std::string status_json(const DaemonStatus& daemon, const Conductor& conductor, const Viewer& viewer);

// One stream: an account per epoch, each failure with its reason, what the scan of each folder left out.
std::string report_json(const Stream& stream);

}  // namespace sl
