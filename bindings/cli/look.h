// The verbs that only look: `status` and `scan`. One thread; each returns the exit status.
#pragma once

#include <string>

namespace sl::cli {

// What the running daemon says of itself. Never starts one: without a daemon it says so and returns 1.
int status(const std::string& socket, bool json);

// What a folder holds and what the scan left out. Opens a stream, which scans, and closes it again.
int scan(const std::string& folder, const std::string& socket, bool json);

}  // namespace sl::cli
