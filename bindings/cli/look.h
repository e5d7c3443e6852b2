// The verb that only looks: `status`. One thread; returns the exit status.
#pragma once

#include <string>

namespace sl::cli {

// What the running daemon says of itself. Never starts one: without a daemon it says so and returns 1.
int status(const std::string& socket, bool json);

}  // namespace sl::cli
