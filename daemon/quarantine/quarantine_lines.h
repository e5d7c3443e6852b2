// The text of the quarantine's file, and its paths for people's eyes. Pure functions; nothing fails but
// parsing, which says what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/quarantine/quarantine_file.h"

namespace sl {

// What a file may have, for it is read and written as a whole; one that has more is damaged. Enough for
// 10,000 entries unless paths are very long.
inline constexpr std::int64_t kMostQuarantineBytes = 8 << 20;

// Everything or, with the reason in `damage`, nothing.
QuarantineContent parse_quarantine(std::string_view text);

// A line for each entry. Beyond kMostQuarantined entries or kMostQuarantineBytes the oldest are dropped, from
// `entries` too.
std::string write_quarantine(QuarantineEntries& entries);

// JSON holds text, and a path is bytes: one that is not UTF-8 is written with every byte but printable ASCII,
// and '%', as %XX.
bool is_utf8(const std::string& path);
std::string percent_encoded(std::string_view path);

// For one line of a terminal or a log: as it is, or in the shell's $'...' where a byte might do something
// there.
std::string shown(const std::string& path);

}  // namespace sl
