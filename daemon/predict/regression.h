// Recursive least squares with forgetting, in relative errors: the online regression behind the predictor.
//
// Fits y = theta . x for a handful of features and y > 0, one observation at a time, in O(features^2). What
// is made small is the error relative to y, so that costs from 0.1 ms to 1 s weigh alike. Robust: an
// observation far from the prediction moves the model by at most what a plausible one would (Huber's idea),
// so that one page fault or a stopped machine does not bend it. Directions in which nothing varies are not
// forgotten, so that a pipeline without a crop, where features are multiples of each other, stays finite. A
// small value owned by one thread.
//
// Source: Haykin, "Adaptive Filter Theory", chapter on RLS; Huber, "Robust estimation of a location
// parameter".
#pragma once

#include <array>
#include <cstddef>

namespace sl {

class Regression {
  public:
    static constexpr std::size_t kFeatures = 4;
    using Features = std::array<double, kFeatures>;

    Regression() : Regression(Features{}) {}
    // `prior`: weights to begin with, believed to be right within a factor of about two. `seen`: observations
    // that stand behind them, for weights learned earlier.
    explicit Regression(const Features& prior, double seen = 0);

    [[nodiscard]] double predict(const Features& x) const;
    // An x or y that is not finite, or a y that is not above 0, is left out.
    void observe(const Features& x, double y);

    [[nodiscard]] const Features& weights() const { return theta_; }

  private:
    void bound_variances();

    Features theta_;
    Features most_variance_;
    std::array<Features, kFeatures> covariance_{};
    double scale_ = 0;  // running mean of the relative error, without its sign
};

}  // namespace sl
