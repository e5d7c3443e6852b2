// The few statistics that tests of randomness need. Every test uses fixed seeds, so a test passes or fails
// always; the bounds are far enough out (about one in a million for good randomness) that a change of seed
// would not fail by chance. Pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace sl::statistics {

// How many standard deviations chi-square is above what equal cells give (Wilson and Hilferty's cube root).
inline double chi_square_excess(const std::vector<std::uint64_t>& counts) {
    double total = 0;
    for (const std::uint64_t c : counts)
        total += static_cast<double>(c);
    const double expected = total / static_cast<double>(counts.size());
    double chi = 0;
    for (const std::uint64_t c : counts) {
        chi += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
    }
    const double k = static_cast<double>(counts.size() - 1);
    return (std::cbrt(chi / k) - (1 - 2 / (9 * k))) / std::sqrt(2 / (9 * k));
}

// Kolmogorov's distance to the uniform distribution on [low, high), times sqrt(n); above 2.7 is one in a
// million.
inline double kolmogorov(std::vector<double> values, double low, double high) {
    std::ranges::sort(values);
    const auto n = static_cast<double>(values.size());
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double f = (values[i] - low) / (high - low);
        const auto rank = static_cast<double>(i);
        worst = std::max({worst, std::abs(f - rank / n), std::abs((rank + 1) / n - f)});
    }
    return worst * std::sqrt(n);
}

}  // namespace sl::statistics
