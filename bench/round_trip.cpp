// What the plan's arithmetic costs: position -> id -> position in an epoch of a billion samples.
//
// Run by bench/resume.py. Prints {"ns": of one folder, "mix_ns": of a mix of four parts, two of which give
// some of their samples only, "wrong": 0}, each the median of nine passes, and ends with 0, or with 1 if a
// position did not come back.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "daemon/plan/sequence.h"

namespace {

constexpr std::uint64_t kBillion = 1000000000;

double round_trip_ns(const sl::Sequence& sequence, std::uint64_t& wrong) {
    constexpr std::uint64_t kTrips = 500000;
    std::array<double, 9> passes{};
    for (double& pass : passes) {
        const auto start = std::chrono::steady_clock::now();
        for (std::uint64_t i = 0; i < kTrips; ++i) {
            const std::uint64_t position = i * 1999;
            wrong += sequence.position_of(sequence.id_at(position)) != position ? 1 : 0;
        }
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        pass = took.count() / kTrips;
    }
    std::ranges::nth_element(passes, passes.begin() + 4);
    return passes[4];
}

}  // namespace

int main() {
    std::uint64_t wrong = 0;
    const auto whole = std::make_shared<const sl::Selection>(kBillion);
    const double folder = round_trip_ns({sl::Order(kBillion, 1, 0, true), whole}, wrong);
    // 400, 300, 200 and 100 million of an epoch of a billion.
    const auto made = sl::Mix::make({sl::Selection(kBillion * 2 / 5), sl::Selection(kBillion),
                                     sl::Selection(kBillion), sl::Selection(kBillion / 10)},
                                    {4, 3, 2, 1});
    const auto mix = std::make_shared<const sl::Mix>(*made);
    const double mixed =
        round_trip_ns(sl::Sequence(std::make_shared<const sl::MixOrder>(mix, 1, 0, true)), wrong);
    std::printf("{\"ns\": %.1f, \"mix_ns\": %.1f, \"wrong\": %llu}\n", folder, mixed,
                static_cast<unsigned long long>(wrong));
    return wrong == 0 ? 0 : 1;
}
