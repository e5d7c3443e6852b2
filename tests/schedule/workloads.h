// What the simulated tests share: costs, loaders and one call that runs them.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "tests/schedule/our_loader.h"

namespace sl::sim {

inline constexpr double kLightNs = 1e6;

// `share` of the samples cost `factor` times the others.
inline Workload make_workload(std::uint32_t batches, std::uint32_t batch, double share, double factor,
                              std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> even(0, 1);
    Workload workload;
    workload.batch = batch;
    for (std::uint32_t i = 0; i < batches * batch; ++i)
        workload.costs.push_back(even(random) < share ? factor * kLightNs : kLightNs);
    return workload;
}

inline double total(const Workload& workload) {
    double sum = 0;
    for (double cost : workload.costs)
        sum += cost;
    return sum;
}

// The consumer's step at `load` of what the workers can do.
inline double step_at(const Workload& workload, std::uint32_t workers, double load) {
    return total(workload) / static_cast<double>(workload.batches()) / workers / load;
}

// As the daemon lays a stream out, with a ring of 3 batches; costs are foreseen up to `error` times.
inline OurOptions make_options(const Workload& workload, double error = 1, std::uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> off(-1, 1);
    OurOptions options;
    const std::uint32_t batch = workload.batch;
    options.slots.lanes = {std::max(24U, batch + batch / 2), std::max(8U, batch / 2), std::max(16U, batch)};
    options.slots.reserve = batch;
    options.ring = 3;
    for (double cost : workload.costs)
        options.predicted.push_back(cost * std::pow(error, off(random)));
    return options;
}

}  // namespace sl::sim
