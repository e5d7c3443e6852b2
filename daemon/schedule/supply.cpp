#include "daemon/schedule/supply.h"

#include <algorithm>

namespace sl {

namespace {

double wanted_by(double when, std::span<const LightDemand> demands) {
    double wanted = 0;
    for (const LightDemand& demand : demands)
        wanted += demand.workers * std::max(0.0, when - demand.dry_ns);
    return wanted;
}

}  // namespace

bool light_samples_suffice(std::span<double> slow_ns, std::uint32_t workers,
                           std::span<const LightDemand> demands) {
    std::ranges::sort(slow_ns);
    // A light sample that turned out slow may lie behind another one, so there may be more than workers.
    double makers = std::max(0.0, static_cast<double>(workers) - static_cast<double>(slow_ns.size()));
    double made = 0;
    double when = 0;
    for (double end : slow_ns) {
        made += makers * (end - when);
        if (made < wanted_by(end, demands)) return false;
        makers += 1;
        when = end;
    }
    return true;
}

}  // namespace sl
