// Whether light samples still come as fast as they are wanted while slow samples hold workers.
//
// A fluid view of what comes next: a worker without a slow sample makes light ones, and one with a slow
// sample does so again once that has ended. A consumer is content until the light samples in store for it run
// dry; from then on it takes the work of so many workers. Both sums grow evenly between the ends of slow
// samples, and only there what is made begins to grow faster, so it is enough to look at those ends.
//
// Called by the scheduler. Pure; times are nanoseconds from now.
#pragma once

#include <cstdint>
#include <span>

namespace sl {

struct LightDemand {
    double workers = 0;  // whose whole time it takes
    double dry_ns = 0;   // when the store is used up if nothing more is made
};

// `slow_ns`: when each slow sample that holds a worker ends; they are sorted.
bool light_samples_suffice(std::span<double> slow_ns, std::uint32_t workers,
                           std::span<const LightDemand> demands);

}  // namespace sl
