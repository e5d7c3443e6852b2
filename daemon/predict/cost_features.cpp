#include "daemon/predict/cost_features.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "daemon/plan/draws.h"

namespace sl {

namespace {

constexpr double kMega = 1e-6;
constexpr double kStep = 0.01;       // of the running means, once a hundred pictures are known
constexpr double kMostLog = 60;      // no file and no picture has e^60 of anything
constexpr double kMostPixels = 1e9;  // of a guess

double share(double part, double whole) {
    return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 1.0;
}

// Profile fast shrinks while decoding to 1/2, 1/4 or 1/8 where the box stays as large as its target, and then
// transforms so many pixels less.
double shrink(const Pipeline& pipeline, const Geometry& geometry) {
    if (pipeline.profile != Profile::kFast) return 1;
    for (const double factor : {0.125, 0.25, 0.5}) {
        if (geometry.box.width * factor >= geometry.resize_width &&
            geometry.box.height * factor >= geometry.resize_height) {
            return factor * factor;
        }
    }
    return 1;
}

}  // namespace

Regression::Features cost_features(const Pipeline& pipeline, const DrawKey& key, std::uint64_t bytes,
                                   const Picture& picture) {
    const Geometry geometry = resolve_geometry(pipeline, key, picture.width, picture.height);
    const double megabytes = static_cast<double>(bytes) * kMega;
    const double megapixels = static_cast<double>(picture.width) * picture.height * kMega;
    const double box = static_cast<double>(geometry.box.width) * geometry.box.height * kMega;
    if (picture.format != kJpegFormat) return {1, megabytes, megapixels, box};
    const double transformed = box * shrink(pipeline, geometry);
    if (picture.progressive) return {1, megabytes, megapixels, transformed};
    const double down_to = share(static_cast<double>(geometry.box.y) + geometry.box.height, picture.height);
    return {1, megabytes * down_to, megapixels * down_to, transformed};
}

const Regression::Features& usual_cost(std::uint32_t format, bool progressive) {
    static constexpr Regression::Features kBaseline = {0.1, 17, 0.3, 4.4};
    static constexpr Regression::Features kProgressive = {0.1, 57, 4.4, 4.4};
    static constexpr Regression::Features kPng = {1.8, 15, 14, 3.8};
    static constexpr Regression::Features kGif = {0.8, 12, 9.5, 3.6};
    static constexpr Regression::Features kWebp = {1.5, 10, 8, 2};
    static constexpr Regression::Features kOther = {1.2, 1, 5, 2.7};  // TIFF, and what was not measured
    constexpr std::uint32_t kPngFormat = 2;
    constexpr std::uint32_t kGifFormat = 3;
    constexpr std::uint32_t kWebpFormat = 4;
    switch (format) {
        case kJpegFormat:
            return progressive ? kProgressive : kBaseline;
        case kPngFormat:
            return kPng;
        case kGifFormat:
            return kGif;
        case kWebpFormat:
            return kWebp;
        default:
            return kOther;
    }
}

void SizeGuess::learn(std::uint64_t bytes, const Picture& picture) {
    const double pixels = static_cast<double>(picture.width) * picture.height;
    if (bytes == 0 || pixels <= 0) return;
    state_.seen += 1;
    const double step = std::max(kStep, 1 / (state_.seen + 4));
    const double dx = std::log(static_cast<double>(bytes)) - state_.bytes;
    const double dy = std::log(pixels) - state_.pixels;
    state_.bytes += step * dx;
    state_.pixels += step * dy;
    state_.variance += step * (dx * dx * (1 - step) - state_.variance);
    state_.covariance += step * (dx * dy * (1 - step) - state_.covariance);
}

Picture SizeGuess::guess(std::uint64_t bytes, std::uint32_t format) const {
    constexpr double kLeastVariance = 0.02;  // files of one size say nothing about the slope
    const double slope = std::clamp(state_.covariance / (state_.variance + kLeastVariance), 0.0, 1.2);
    const double x = std::log(std::max(static_cast<double>(bytes), 1.0));
    const double pixels =
        std::exp(std::min(state_.pixels + slope * (x - state_.bytes), std::log(kMostPixels)));
    const double height = std::sqrt(pixels * 3 / 4);
    return {.format = format,
            .width = static_cast<std::uint32_t>(std::max(height * 4 / 3, 1.0)),
            .height = static_cast<std::uint32_t>(std::max(height, 1.0)),
            .progressive = false};
}

void SizeGuess::restore(const State& state) {
    const std::array<double, 5> numbers = {state.bytes, state.pixels, state.variance, state.covariance,
                                           state.seen};
    const bool good = std::ranges::all_of(
        numbers, [](double number) { return std::isfinite(number) && std::abs(number) < 1e18; });
    if (good && state.variance >= 0 && std::abs(state.bytes) < kMostLog && std::abs(state.pixels) < kMostLog)
        state_ = state;
}

}  // namespace sl
