// What a scan of a folder found and left out, for a person: counts by reason, and a few names of each.
//
// Filled by folder_scan, kept in the manifest, shown by the stream's report. A plain value; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace sl
