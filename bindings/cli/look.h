// The verbs that look at the running daemon: `status`, `verdict`, `top`. None starts one: without a daemon
// they say so and return 1. One thread; each returns the exit status.
#pragma once

#include <string>

namespace sl::cli {

// What the daemon says of itself.
int status(const std::string& socket, bool json);

// Watches the daemon for so many seconds, then says what limits the jobs and what would help (verdict.h).
int verdict(const std::string& socket, double seconds, bool json);

struct TopOptions {
    std::string socket;
    double interval = 1;  // seconds
    bool once = false;    // one picture and out; so it is too where stdout is no terminal
    bool json = false;    // the picture's numbers: status and verdict as one JSON object, once
};

// Streams, stages, lanes, memory, refreshed until q or Ctrl-C.
int top(const TopOptions& options);

}  // namespace sl::cli
