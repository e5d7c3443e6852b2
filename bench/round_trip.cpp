// What the plan's arithmetic costs: position -> id -> position in an epoch of a billion samples.
//
// Run by bench/resume.py. Prints {"ns": median of nine passes, "wrong": 0} and ends with 0, or with 1 if a
// position did not come back.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "daemon/plan/order.h"

int main() {
    constexpr std::uint64_t kTrips = 500000;
    const sl::Order order(1000000000, 1, 0, true);
    std::array<double, 9> passes{};
    std::uint64_t wrong = 0;
    for (double& pass : passes) {
        const auto start = std::chrono::steady_clock::now();
        for (std::uint64_t i = 0; i < kTrips; ++i) {
            const std::uint64_t position = i * 1999;
            wrong += order.position_of(order.id_at(position)) != position ? 1 : 0;
        }
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        pass = took.count() / kTrips;
    }
    std::ranges::nth_element(passes, passes.begin() + 4);
    std::printf("{\"ns\": %.1f, \"wrong\": %llu}\n", passes[4], static_cast<unsigned long long>(wrong));
    return wrong == 0 ? 0 : 1;
}
