// Recursive least squares with forgetting: the online regression behind the predictor.
//
// Fits y = theta . x for a handful of features, one observation at a time, in O(features^2). Robust: an
// observation far from the prediction moves the model by at most what a plausible one would (Huber's idea),
// so that one page fault or a stopped machine does not bend it. A small value owned by one thread.
//
// Source: Haykin, "Adaptive Filter Theory", chapter on RLS; Huber, "Robust estimation of a location
// parameter".
#pragma once

#include <array>
#include <cstddef>

namespace sl {

class Regression {
  public:
    static constexpr std::size_t kFeatures = 3;
    using Features = std::array<double, kFeatures>;

    Regression() : Regression(Features{}) {}
    explicit Regression(const Features& prior);

    [[nodiscard]] double predict(const Features& x) const;
    void observe(const Features& x, double y);

  private:
    Features theta_;
    std::array<Features, kFeatures> covariance_;
    double scale_ = 0;  // running mean of |error|
};

}  // namespace sl
