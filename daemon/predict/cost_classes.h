// The three cost classes, from the live distribution of predicted costs.
//
// Rule: with the typical cost being the median of what was predicted lately, a sample is *light* up to 4
// times that, *medium* up to 16 times, *heavy* beyond. So a set whose costs are all alike has light samples
// only, whatever they cost, and a few giants among thousands do not move the borders. Two hystereses keep the
// classes still: the typical cost stays as it is while it lies between the 40th and the 60th percentile (give
// or take a tenth), so the borders do not jitter; and a sample that has had a class keeps it until its cost
// is a fifth beyond the border, so that one near a border does not change it every epoch.
//
// Owned by the conductor thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace sl {

enum class Lane : std::uint32_t { kLight = 0, kMedium = 1, kHeavy = 2 };
inline constexpr std::uint32_t kLanes = 3;

class CostClasses {
  public:
    static constexpr double kMediumFactor = 4;
    static constexpr double kHeavyFactor = 16;
    static constexpr double kKeep = 1.2;  // how far beyond a border a sample keeps its class

    // One more predicted cost, in nanoseconds.
    void add(double cost_ns);

    [[nodiscard]] Lane lane_of(double cost_ns) const;
    // For a sample that had a class before.
    [[nodiscard]] Lane lane_of(double cost_ns, Lane before) const;

    // What the borders are multiples of; 0 before the first cost.
    [[nodiscard]] double typical_ns() const { return typical_ns_; }
    [[nodiscard]] double medium_from_ns() const { return kMediumFactor * typical_ns_; }
    [[nodiscard]] double heavy_from_ns() const { return kHeavyFactor * typical_ns_; }

    // As learned earlier: what comes goes on from there.
    void restore(double typical_ns);

  private:
    static constexpr int kPerOctave = 8;
    static constexpr int kFirstOctave = 10;  // 1 microsecond; what is below or above the bins counts as the
    static constexpr int kOctaves = 30;      // first or last of them
    static constexpr std::size_t kBins = std::size_t{kPerOctave} * kOctaves;

    static std::size_t bin_of(double cost_ns);
    [[nodiscard]] double quantile(double share) const;
    void follow();

    std::array<double, kBins> weights_{};
    double total_ = 0;
    double weight_ = 1;  // of the next cost; grows, so that earlier ones fade
    std::uint64_t costs_ = 0;
    double typical_ns_ = 0;
};

}  // namespace sl
