// See failure_log.h.
#include "daemon/stream/failure_log.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "daemon/quarantine/quarantine_lines.h"

namespace sl {

namespace {

constexpr std::chrono::seconds kBurst{10};

bool is_of_reading(SampleErrorKind kind) {
    return kind == SampleErrorKind::kIo || kind == SampleErrorKind::kTimeout ||
           kind == SampleErrorKind::kChanged;
}

}  // namespace

FailureLog::~FailureLog() {
    for (const auto& [burst, more] : more_)
        tell(burst, more);
}

void FailureLog::failed(const std::string& dataset, const std::string& path, const SampleError& error) {
    if (!is_of_reading(error.kind)) return;
    auto [found, is_new] = more_.try_emplace(Burst{dataset, error.kind}, 0);
    if (!is_new) {
        ++found->second;
        return;
    }
    spdlog::warn("{}: {}: {}", shown(path), to_string(error.kind), error.message);
    loop_.after(kBurst, [this, burst = found->first] {
        if (auto ended = more_.extract(burst)) tell(burst, ended.mapped());
    });
}

void FailureLog::tell(const Burst& burst, std::uint64_t more) {
    if (more == 0) return;
    spdlog::warn("{}: {} more samples failed with {}", shown(burst.first), more, to_string(burst.second));
}

}  // namespace sl
