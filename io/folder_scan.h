// Walks a dataset folder once and keeps what it found: directories, image names, and what was left out.
//
// Used by folder_source only. Blocking (it lists directories), so it runs before a stream starts, never on
// the conductor's path. Files are told apart by the type in the directory entry: one stat per symbolic link
// or untyped entry, none per file. Every directory is entered once, known by (device, inode); links are
// followed after all real directories, so a link never takes the files away from the directory's own place. A
// missing or unreadable root is an error; anything else that cannot be read is counted in the report, and the
// walk goes on.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shm/error.h"

namespace sl {

enum class SkipReason {
    kHidden,        // the name starts with a dot
    kThumbs,        // Thumbs.db
    kOther,         // the name does not end like an image's
    kBroken,        // a link that leads nowhere, or round in a circle
    kDenied,        // no permission
    kFailed,        // any other error of stat or of listing
    kSpecial,       // FIFO, socket, device: never opened
    kOutsideClass,  // an image beside the class folders
    kRepeated,      // a directory that was entered already by another way
    kCount
};

// "hidden", "thumbs", "other", "broken", "denied", "failed", "special", "outside_class", "repeated".
std::string_view to_string(SkipReason reason);

struct ScanReport {
    static constexpr std::size_t kMostExamples = 20;
    struct Skipped {
        std::uint64_t count = 0;
        std::vector<std::string> examples;  // paths below the root, bytes as the file system has them
    };

    std::uint64_t directories = 0;  // entered, the root included
    std::array<Skipped, static_cast<std::size_t>(SkipReason::kCount)> skipped;

    [[nodiscard]] const Skipped& of(SkipReason reason) const {
        return skipped[static_cast<std::size_t>(reason)];
    }
    void add(SkipReason reason, std::string path);
    // One line for a person: "12 directories; left out: 3 other (a.txt, b.csv, c.md), 1 hidden (.git)".
    [[nodiscard]] std::string summary() const;
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
    ScanReport report;
};

Result<FolderScan> scan_folder(const std::string& root);

}  // namespace sl
