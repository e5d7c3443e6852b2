// One stream in a scheduler, for the tests of what it picks and when.
#pragma once

#include <cstdint>

#include "daemon/schedule/scheduler.h"

namespace sl {

inline constexpr std::uint64_t kStream = 1;
inline constexpr std::uint32_t kBatch = 8;
inline constexpr double kMean = 1e6;

inline Scheduler one_stream(std::uint32_t workers) {
    Scheduler scheduler(workers);
    scheduler.add_stream(kStream, {.batch_size = kBatch});
    scheduler.update(kStream, 0, kMean);
    return scheduler;
}

inline Runnable sample(std::uint64_t step, std::uint32_t row, double cost = kMean) {
    return {step, row, static_cast<std::uint32_t>(step * kBatch + row), cost};
}

}  // namespace sl
