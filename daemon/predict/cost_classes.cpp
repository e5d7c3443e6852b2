#include "daemon/predict/cost_classes.h"

#include <algorithm>
#include <cmath>

namespace sl {

namespace {
constexpr double kFade = 1 + 1.0 / 2048;  // about two thousand costs count
constexpr double kHeaviestWeight = 1e9;
constexpr std::uint64_t kFew = 64;  // until then each cost is looked at: the first batches need classes too
constexpr std::uint64_t kLookEvery = 16;
constexpr double kLow = 0.4;
constexpr double kHigh = 0.6;
constexpr double kSlack = 1.1;
}  // namespace

std::size_t CostClasses::bin_of(double cost_ns) {
    const double octaves = std::log2(std::max(cost_ns, 1.0)) - kFirstOctave;
    return static_cast<std::size_t>(std::clamp(octaves * kPerOctave, 0.0, static_cast<double>(kBins - 1)));
}

void CostClasses::add(double cost_ns) {
    if (!std::isfinite(cost_ns)) return;
    weights_[bin_of(cost_ns)] += weight_;
    total_ += weight_;
    weight_ *= kFade;
    if (weight_ > kHeaviestWeight) {
        for (double& weight : weights_)
            weight /= weight_;
        total_ /= weight_;
        weight_ = 1;
    }
    ++costs_;
    if (costs_ <= kFew || costs_ % kLookEvery == 0) follow();
}

double CostClasses::quantile(double share) const {
    double left = share * total_;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
        if (weights_[bin] >= left && weights_[bin] > 0) {
            const double within = static_cast<double>(bin) + left / weights_[bin];
            return std::exp2(kFirstOctave + within / kPerOctave);
        }
        left -= weights_[bin];
    }
    return std::exp2(kFirstOctave + kOctaves);
}

void CostClasses::follow() {
    const bool fits = typical_ns_ * kSlack >= quantile(kLow) && typical_ns_ <= kSlack * quantile(kHigh);
    if (!fits) typical_ns_ = quantile(0.5);
}

Lane CostClasses::lane_of(double cost_ns) const {
    if (typical_ns_ <= 0 || cost_ns <= medium_from_ns()) return Lane::kLight;
    return cost_ns <= heavy_from_ns() ? Lane::kMedium : Lane::kHeavy;
}

Lane CostClasses::lane_of(double cost_ns, Lane before) const {
    const Lane lowest = lane_of(cost_ns / kKeep);
    const Lane highest = lane_of(cost_ns * kKeep);
    return std::clamp(before, lowest, highest);
}

void CostClasses::restore(double typical_ns) {
    if (!std::isfinite(typical_ns) || typical_ns <= 0) return;
    weights_[bin_of(typical_ns)] += weight_ * kFew;
    total_ += weight_ * kFew;
    costs_ = kFew;
    typical_ns_ = typical_ns;
}

}  // namespace sl
