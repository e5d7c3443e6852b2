// The progress bar on stderr: samples done of all, samples/s, time left. Drawn at most ten times a second,
// and only if stderr is a terminal. One thread; it cannot fail.
#pragma once

#include <chrono>
#include <cstdint>

namespace sl::cli {

class Progress {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Progress(std::uint64_t total);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(std::uint64_t done);

  private:
    bool enabled_;
    bool drawn_ = false;
    std::uint64_t total_;
    Clock::time_point start_;
    Clock::time_point next_;
};

}  // namespace sl::cli
