// What a scan looked at, and whether it still looks the same: the reason to believe a kept scan.
//
// A folder's scan depends on the names and types of its entries, which cannot change without changing the
// times of their directory; and on what links lead to, which can. So a scan keeps one witness for each
// directory and each link, and looking at them again (one stat each, none per file) tells whether a new scan
// would find the same. Times are believed only where the file system's clock has moved on since: a change
// within the tick in which a directory was listed leaves the times as the listing saw them (the problem that
// git calls racy). On a network file system a change by another host shows as late as the mount's attribute
// cache allows.
//
// Plain values and blocking calls; safe on any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/reach.h"

namespace sl {

// In a manifest byte for byte.
struct Witness {
    enum Kind : std::uint16_t {
        kDirectory = 0,   // entered: device, inode, both times
        kUnreadable = 1,  // a directory that could not be opened: error
        kLink = 2,        // type of what it leads to, device and inode if that is a directory; or error
        kKinds
    };
    std::uint64_t path = 0;  // below the root; offset of a text that a zero byte ends
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t mtime_ns = 0;  // kNotTrusted: equals no time
    std::int64_t ctime_ns = 0;  // its owner cannot set it back, as archivers do with mtime
    std::uint32_t type = 0;     // S_IFMT bits
    std::uint16_t kind = kDirectory;
    std::uint16_t error = 0;  // errno
};
static_assert(sizeof(Witness) == 48);

inline constexpr std::int64_t kNotTrusted = INT64_MIN;
inline constexpr std::int64_t kClockTick = 20'000'000;  // ns: two jiffies of the slowest usual kernel
inline constexpr std::int64_t kCoarseClockTick = 2'500'000'000;  // FAT's two seconds, with some room

// True if a directory with these times, looked at when the clock showed `now_ns`, may still change without
// changing them; also if it has no times, as on simple FUSE file systems.
bool may_change_unseen(std::int64_t mtime_ns, std::int64_t ctime_ns, std::int64_t now_ns);

// The clock of file times.
std::int64_t file_clock_ns();

// What stat says of a directory. Its times are kNotTrusted if they may change unseen.
Witness directory_witness(const struct stat& status, std::int64_t now_ns);

// What stat, following, says of a link; `error`: what it failed with, else 0.
Witness link_witness(const struct stat& status, int error);

// The path below the root of the first witness that does not look as it did ("." for the root itself), or
// nothing. `text`: where the witnesses' paths lie. With a `reach` all is looked at as the scan of its user
// did.
std::optional<std::string> first_change(const std::string& root, std::span<const Witness> witnesses,
                                        const char* text, const Reach* reach = nullptr);

}  // namespace sl
