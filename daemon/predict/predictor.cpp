#include "daemon/predict/predictor.h"

#include <algorithm>
#include <cmath>

#include "daemon/plan/draws.h"

namespace sl {

namespace {
constexpr double kMediumFactor = 4;
constexpr double kHeavyFactor = 16;
constexpr double kFloorNs = 20e3;  // nothing costs less than this: opening, entropy tables, one resize
constexpr double kFirstGuessNs = 1.2e6;
// Prior: a fixed part, per megabyte of file, per megapixel read; in milliseconds, as a desktop core of today.
constexpr Regression::Features kPrior = {0.2, 8.0, 3.0};
constexpr double kUsualPixelsPerByte = 4;
}  // namespace

Predictor::Predictor(const Pipeline& pipeline)
    : pipeline_(pipeline), median_ns_(kFirstGuessNs), mean_ns_(kFirstGuessNs) {
    models_.fill(Regression(kPrior));
    pixels_per_byte_.fill(kUsualPixelsPerByte);
}

std::size_t Predictor::model_index(std::uint32_t format, bool progressive) {
    return (std::size_t{format} * 2 + (progressive ? 1 : 0)) % kModels;
}

Regression::Features Predictor::features(const DrawKey& key, std::uint64_t bytes, double pixels) const {
    double share = expected_area_fraction(pipeline_, key);
    return {1.0, static_cast<double>(bytes) * 1e-6, pixels * share * 1e-6};
}

Prediction Predictor::predict(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint) {
    auto found = known_.find(key.sample_id);
    bool seen = found != known_.end();
    std::size_t index =
        seen ? model_index(found->second.format, found->second.progressive) : model_index(format_hint, false);
    double pixels = seen ? found->second.pixels : static_cast<double>(bytes) * pixels_per_byte_[index];
    double cost = std::max(models_[index].predict(features(key, bytes, pixels)) * 1e6, kFloorNs);
    return {cost, lane_of(cost)};
}

void Predictor::observe(const DrawKey& key, std::uint64_t bytes, const Observed& observed) {
    double pixels = static_cast<double>(observed.width) * observed.height;
    std::size_t index = model_index(observed.format, observed.progressive);
    models_[index].observe(features(key, bytes, pixels), observed.cost_ns * 1e-6);
    if (bytes > 0) {
        double ratio = pixels / static_cast<double>(bytes);
        pixels_per_byte_[index] += 0.02 * (ratio - pixels_per_byte_[index]);
    }
    known_[key.sample_id] = {static_cast<float>(pixels), static_cast<std::uint16_t>(observed.format),
                             observed.progressive};
    // Running median: a step up or down per observation, large at first (Robbins and Monro's scheme).
    ++observations_;
    double step = std::max(0.01, 1.0 / static_cast<double>(observations_ + 1));
    median_ns_ *= observed.cost_ns > median_ns_ ? 1 + step : 1 - step;
    mean_ns_ += std::max(0.005, 1.0 / static_cast<double>(observations_ + 1)) * (observed.cost_ns - mean_ns_);
}

Lane Predictor::lane_of(double cost_ns) const {
    if (cost_ns <= kMediumFactor * median_ns_) return Lane::kLight;
    return cost_ns <= kHeavyFactor * median_ns_ ? Lane::kMedium : Lane::kHeavy;
}

}  // namespace sl
