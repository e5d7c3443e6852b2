// Walks a dataset folder once and keeps what it found: directories, image names, and what was left out.
//
// Used by folder_source only. Blocking (it lists directories), so it runs before a stream starts, never on
// the conductor's path. Files are told apart by the type in the directory entry: one stat per symbolic link
// or untyped entry, none per file. Every directory is entered once, known by (device, inode); links are
// followed after all real directories, so a link never takes the files away from the directory's own place. A
// missing or unreadable root is an error; anything else that cannot be read is counted in the report, and the
// walk goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "io/reach.h"
#include "io/scan_report.h"
#include "io/witness.h"
#include "shm/error.h"

namespace sl {

// How far a scan is, for somebody else's eyes: written by the scan's thread, read by any.
struct ScanProgress {
    std::atomic<std::uint64_t> directories = 0;
    std::atomic<std::uint64_t> images = 0;
};

struct FolderScan {
    static constexpr std::uint32_t kNoClass = UINT32_MAX;  // the root's own files

    struct ClassFolder {
        std::string name;
        std::uint64_t images = 0;
        bool exists = true;  // false: only hidden files in it, or another way to a directory entered already
    };
    struct Directory {
        std::string path;  // below the root; empty for the root
        std::uint32_t class_folder = kNoClass;
        std::uint64_t first = 0;  // its names: name_offsets[first, first + count), sorted bytewise
        std::uint64_t count = 0;
    };

    std::string names;  // image names, each ended by a zero byte
    std::vector<std::uint64_t> name_offsets;
    std::vector<Directory> directories;      // those with images, in no particular order
    std::vector<ClassFolder> class_folders;  // sorted bytewise
    std::vector<Witness> witnesses;
    std::string witness_paths;  // each ended by a zero byte
    // False: something changed or failed on the way, so that no later look can tell that all is as it was.
    bool repeatable = true;
    ScanReport report;
};

// `progress` may be null. With a `reach` only what its user may list is entered, and no link is followed out
// of its root. A directory that was changed a moment ago makes the scan wait once, for kClockTick.
Result<FolderScan> scan_folder(const std::string& root, ScanProgress* progress = nullptr,
                               const Reach* reach = nullptr);

}  // namespace sl
