#include "daemon/predict/regression.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sl {

namespace {
constexpr double kForgetting = 0.998;  // remembers about 500 observations
// Variances are in units of the noise's, which is taken as 0.15 squared; a weight's prior spread is itself.
constexpr double kPriorVariance = 1 / (0.15 * 0.15);
constexpr double kLeastShare = 0.05;  // of the largest weight: so that one of 0 can become something
constexpr double kLeastWeight = 1e-3;
constexpr double kMostSeen = 100;  // however long ago was learned, half a hundred samples may change it
constexpr double kHuber = 4.0;     // errors beyond this many mean errors count as that
constexpr double kFirstScale = 0.3;
constexpr double kScaleStep = 0.02;
constexpr double kWorstRatio = 16;  // beyond, the prediction says nothing about how y is to be weighed
}  // namespace

Regression::Regression(const Features& prior, double seen) : theta_(prior), scale_(kFirstScale) {
    double least = kLeastWeight;
    for (const double weight : prior)
        least = std::max(least, kLeastShare * std::abs(weight));
    for (std::size_t i = 0; i < kFeatures; ++i) {
        const double spread = std::max(std::abs(prior[i]), least);
        most_variance_[i] = kPriorVariance * spread * spread;
        covariance_[i][i] = most_variance_[i] / (1 + std::min(seen, kMostSeen));
    }
}

double Regression::predict(const Features& x) const {
    return std::inner_product(x.begin(), x.end(), theta_.begin(), 0.0);
}

// Forgetting lets the variance of a direction that nothing excites grow without end. Scaling a row and its
// column alike leaves the matrix a covariance.
void Regression::bound_variances() {
    for (std::size_t i = 0; i < kFeatures; ++i) {
        if (covariance_[i][i] <= most_variance_[i]) continue;
        const double factor = std::sqrt(most_variance_[i] / covariance_[i][i]);
        for (std::size_t j = 0; j < kFeatures; ++j) {
            covariance_[i][j] *= factor;
            covariance_[j][i] *= factor;
        }
    }
}

void Regression::observe(const Features& x, double y) {
    const double predicted = predict(x);
    if (!std::isfinite(predicted) || !std::isfinite(y) || y <= 0) return;
    // Dividing by the geometric mean of both makes half and double the prediction errors of one size.
    const double unit = std::sqrt(std::clamp(predicted, y / kWorstRatio, y * kWorstRatio) * y);
    double error = (y - predicted) / unit;
    const double limit = kHuber * scale_;
    scale_ += kScaleStep * (std::min(std::abs(error), limit) - scale_);
    error = std::clamp(error, -limit, limit);

    Features gain{};
    double denominator = kForgetting;
    for (std::size_t i = 0; i < kFeatures; ++i) {
        for (std::size_t j = 0; j < kFeatures; ++j)
            gain[i] += covariance_[i][j] * x[j] / unit;
        denominator += gain[i] * x[i] / unit;
    }
    for (std::size_t i = 0; i < kFeatures; ++i) {
        theta_[i] += gain[i] / denominator * error;
        for (std::size_t j = 0; j <= i; ++j) {
            covariance_[i][j] = (covariance_[i][j] - gain[i] * gain[j] / denominator) / kForgetting;
            covariance_[j][i] = covariance_[i][j];
        }
    }
    bound_variances();
}

}  // namespace sl
