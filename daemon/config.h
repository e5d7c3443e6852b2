// The daemon's configuration: defaults, then a TOML file, then the command line.
//
// Read at start by main, and again when it is told to reload (reload.h). Unknown keys are errors that name
// the key. The whole configuration is printed at start.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/broker/limits.h"
#include "daemon/broker/rights.h"
#include "io/reader.h"
#include "shm/error.h"

namespace sl {

// What the file and the command line both allow.
struct NumberRange {
    std::int64_t least;
    std::int64_t most;
};
inline constexpr NumberRange kWorkersAllowed{1, 1024};
inline constexpr NumberRange kIoEntriesAllowed{2, 4096};
inline constexpr NumberRange kIoThreadsAllowed{1, 256};

struct Config {
    std::string socket;         // path to listen at; empty: only --listen-fd
    std::uint32_t workers = 0;  // 0: from affinity and cgroup quota
    std::uint64_t memory = 0;   // bytes, all segments together; 0: half of what the machine has available
    std::uint64_t input = 0;    // bytes of it for file bytes; 0: 1/64 of it, 64 MiB to 256 MiB
    ReaderBackend io = ReaderBackend::kAuto;
    std::uint32_t io_entries = 256;
    std::uint32_t io_threads = 4;                    // for each user's files on each mount
    std::chrono::milliseconds read_timeout{30'000};  // a sample that cannot be read within it fails
    bool sandbox = true;                             // false: workers decode unconfined (docs/sandbox.md)
    std::string log_level = "info";
    std::vector<RootSetting> roots;  // [[root]]
    Limits limits;                   // [limits]: of each user but the daemon's own
    bool predict = true;  // false: every sample is taken for an average one, and starts when its turn comes
};

// Changes what the file sets. kInvalidArgument names file, line and key.
Result<void> load_config(const std::string& path, Config& config);

// Cores that this process may use: affinity, and the quota of its control group.
std::uint32_t usable_cores();

// Fills in what is 0 or not set by what this machine has.
void complete_config(Config& config);

// One line: "workers=2 memory=... ".
std::string describe_config(const Config& config);

// "4 GiB", "512M", "1073741824" -> bytes.
Result<std::uint64_t> parse_bytes(const std::string& text);
// "30 s", "500 ms", "30" (seconds) -> time; at least 1 ms, at most a day.
Result<std::chrono::milliseconds> parse_time(const std::string& text);
Result<ReaderBackend> parse_backend(const std::string& text);

}  // namespace sl
