// How good a stream's predictions were: mean absolute percentage error, bias, rank correlation, class errors.
//
// Owned by the conductor thread. Three parts are kept apart: *start*, the stream's first 200 samples; *first
// epoch*, later ones that had never been decoded before; *warm*, later ones that had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sl {

struct PredictionErrors {
    std::uint64_t samples = 0;
    double absolute = 0;   // sum of |predicted - actual| / actual
    double logarithm = 0;  // sum of log(predicted / actual)
    std::uint64_t class_errors = 0;

    [[nodiscard]] double mape() const { return share(absolute); }
    [[nodiscard]] double bias() const { return share(logarithm); }  // above 0: predicted too much
    [[nodiscard]] double class_error() const { return share(static_cast<double>(class_errors)); }

  private:
    [[nodiscard]] double share(double sum) const {
        return samples == 0 ? 0 : sum / static_cast<double>(samples);
    }
};

class PredictionReport {
  public:
    static constexpr std::uint64_t kStart = 200;

    // `known`: the sample had been decoded before.
    void add(double predicted_ns, double actual_ns, bool known, bool class_error);

    [[nodiscard]] const PredictionErrors& start() const { return start_; }
    [[nodiscard]] const PredictionErrors& first_epoch() const { return first_epoch_; }
    [[nodiscard]] const PredictionErrors& warm() const { return warm_; }

    // Spearman's, from -1 to 1, over at most a thousand samples drawn evenly from all; 0 for fewer than two.
    // Takes a tenth of a millisecond.
    [[nodiscard]] double rank_correlation() const;

  private:
    PredictionErrors start_;
    PredictionErrors first_epoch_;
    PredictionErrors warm_;
    std::uint64_t added_ = 0;
    std::uint64_t random_ = 0x9E3779B97F4A7C15U;
    std::vector<std::pair<double, double>> kept_;
};

}  // namespace sl
