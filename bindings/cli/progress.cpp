// The progress bar; see progress.h.
#include "bindings/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace sl::cli {

namespace {
constexpr auto kEvery = std::chrono::milliseconds(100);
constexpr std::uint64_t kWidth = 30;
constexpr char kClearLine[] = "\r\x1b[K";
}  // namespace

Progress::Progress(std::uint64_t total)
    : enabled_(::isatty(STDERR_FILENO) == 1), total_(total), start_(Clock::now()), next_(start_) {}

Progress::~Progress() {
    if (drawn_) std::fputs(kClearLine, stderr);
}

void Progress::show(std::uint64_t done) {
    if (!enabled_) return;
    Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + kEvery;
    drawn_ = true;

    double seconds = std::chrono::duration<double>(now - start_).count();
    double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    std::uint64_t whole = std::max<std::uint64_t>(1, std::max(total_, done));
    std::string bar(kWidth * done / whole, '#');
    bar.resize(kWidth, '.');
    std::fprintf(stderr, "%s[%s] %llu/%llu samples  %.0f/s", kClearLine, bar.c_str(),
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(whole), rate);
    if (rate > 0) std::fprintf(stderr, "  %.0f s left", static_cast<double>(whole - done) / rate);
    std::fflush(stderr);
}

}  // namespace sl::cli
