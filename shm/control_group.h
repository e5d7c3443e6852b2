// What the control groups of this process allow it: memory and cores.
//
// A group's own limit and those of all groups above it hold (a service's, its slice's, a container's); the
// least counts. Only cgroup v2 is looked at. Any thread; files that are missing or odd mean no limit.
#pragma once

#include <cstdint>
#include <string>

namespace sl {

struct ControlGroups {
    std::string of_self = "/proc/self/cgroup";
    std::string root = "/sys/fs/cgroup";

    // Bytes that may still be used, file pages counted as free; the largest number where nothing limits it.
    [[nodiscard]] std::uint64_t memory_left() const;
    // Of cores' time, as 1.5; infinity where nothing limits it.
    [[nodiscard]] double cores() const;
};

}  // namespace sl
