#include "daemon/predict/regression.h"

#include <algorithm>
#include <cmath>

namespace sl {

namespace {
constexpr double kForgetting = 0.998;   // remembers about 500 observations
constexpr double kPriorVariance = 4.0;  // how little the prior is trusted, in squared feature weights
constexpr double kMaxVariance = 1e4;    // forgetting must not let an unexcited direction grow without end
constexpr double kHuber = 4.0;          // errors beyond this many mean errors count as that
}  // namespace

Regression::Regression(const Features& prior) : theta_(prior), covariance_{} {
    for (std::size_t i = 0; i < kFeatures; ++i)
        covariance_[i][i] = kPriorVariance;
}

double Regression::predict(const Features& x) const {
    double sum = 0;
    for (std::size_t i = 0; i < kFeatures; ++i)
        sum += theta_[i] * x[i];
    return sum;
}

void Regression::observe(const Features& x, double y) {
    double error = y - predict(x);
    double limit = scale_ > 0 ? kHuber * scale_ : std::abs(error);
    scale_ = scale_ > 0 ? scale_ + 0.02 * (std::min(std::abs(error), limit) - scale_) : std::abs(error);
    error = std::clamp(error, -limit, limit);

    Features gain{};
    double denominator = kForgetting;
    for (std::size_t i = 0; i < kFeatures; ++i) {
        for (std::size_t j = 0; j < kFeatures; ++j)
            gain[i] += covariance_[i][j] * x[j];
        denominator += x[i] * gain[i];
    }
    for (std::size_t i = 0; i < kFeatures; ++i)
        theta_[i] += gain[i] / denominator * error;
    for (std::size_t i = 0; i < kFeatures; ++i) {
        for (std::size_t j = 0; j < kFeatures; ++j) {
            double next = (covariance_[i][j] - gain[i] * gain[j] / denominator) / kForgetting;
            covariance_[i][j] = std::clamp(next, -kMaxVariance, kMaxVariance);
        }
    }
}

}  // namespace sl
