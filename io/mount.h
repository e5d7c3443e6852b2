// Where a dataset lies: which mount, whether reads of it may never return, and whose user it is read for.
//
// Found once for each dataset, on the thread that scans it; constant afterwards. The readers keep requests of
// different mounts and users apart by it, so that one dead mount does not hold up the others, nor one user's
// files another's.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "io/reach.h"

namespace sl {

struct Mount {
    std::uint64_t device = 0;        // st_dev
    bool may_hang = false;           // on a network or in user space: its server may fall silent for good
    std::optional<uid_t> user = {};  // none: the daemon's own

    bool operator==(const Mount&) const = default;
    // Who waits for whom, and whose calls count together when they hang.
    struct Key {
        std::optional<uid_t> user;
        std::uint64_t device = 0;
        auto operator<=>(const Key&) const = default;
    };
    [[nodiscard]] Key key() const { return {user, device}; }
};

// Of the file system that holds `path`, as it is seen through `reach` if there is one. Asks it, so it may
// block. What cannot be told may hang.
Mount mount_of(const std::string& path, const Reach* reach = nullptr);

}  // namespace sl
