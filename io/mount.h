// Where a dataset lies: which mount, and whether reads of it may never return.
//
// Found once for each dataset, on the thread that scans it; constant afterwards. The readers keep requests of
// different mounts apart by it, so that one dead mount does not hold up the others.
#pragma once

#include <cstdint>
#include <string>

#include "io/reach.h"

namespace sl {

struct Mount {
    std::uint64_t device = 0;  // st_dev
    bool may_hang = false;     // on a network or in user space: its server may fall silent for good

    bool operator==(const Mount&) const = default;
};

// Of the file system that holds `path`, as it is seen through `reach` if there is one. Asks it, so it may
// block. What cannot be told may hang.
Mount mount_of(const std::string& path, const Reach* reach = nullptr);

}  // namespace sl
