// The quarantine's file: JSON lines, one for each sample known to be bad, in the user's cache folder.
//
// Text and paths that are no text are in quarantine_lines.h. Read and written by this user's daemons and by
// speedyctl, any number at once: writers take turns by a lock file and replace the file as a whole, so a
// reader sees the old one or the new one. Every call blocks on the file system. A file that another user owns
// or may write is not believed; one that is damaged is kept out as a whole, with the reason. No state: safe
// from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "shm/error.h"

namespace sl {

struct QuarantineEntry {
    std::uint64_t size = 0;  // of the file when it failed, as is its time: with others the entry is void
    std::int64_t mtime_ns = 0;
    SampleErrorKind kind = SampleErrorKind::kNone;
    std::string reason;
    std::int64_t offset = kNoOffset;
    std::int64_t time = 0;      // when it failed, seconds since 1970
    std::uint64_t context = 0;  // of kinds that depend on more than the file: what else must be the same
    std::string version;        // of the daemon that found it

    bool operator==(const QuarantineEntry&) const = default;
};

using QuarantineEntries = std::map<std::string, QuarantineEntry>;  // by path

struct QuarantineContent {
    QuarantineEntries entries;
    std::string damage;     // not empty: why nothing of the file was taken
    std::string signature;  // of the file on disk: equal as long as nobody has written it
};

// Entries that a file keeps; the oldest make room.
inline constexpr std::size_t kMostQuarantined = 10'000;

// $XDG_CACHE_HOME/speedyloader/quarantine, else below ~/.cache; "" without either.
std::string quarantine_path();

// "" without a file.
std::string quarantine_signature(const std::string& path);

// A missing file is an empty one. kDenied: not this user's file. kIo: it cannot be read.
Result<QuarantineContent> load_quarantine(const std::string& path);

// Reads, changes and replaces the file, alone among writers; gives what is in it now. A damaged file begins
// anew, and `damage` says so. Errors: load_quarantine's, and kIo where it cannot be written, or another
// writer has not let go of it within 3 s.
Result<QuarantineContent> update_quarantine(const std::string& path,
                                            const std::function<void(QuarantineEntries&)>& change);

}  // namespace sl
