#include "daemon/predict/prediction_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sl {

namespace {

constexpr std::size_t kKept = 1000;

// Ranks from 0 on; equal values share the middle of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
    std::vector<double> ranks(values.size());
    for (std::size_t from = 0, until = 0; from < order.size(); from = until) {
        while (until < order.size() && values[order[until]] == values[order[from]])
            ++until;
        for (std::size_t i = from; i < until; ++i)
            ranks[order[i]] = static_cast<double>(from + until - 1) / 2;
    }
    return ranks;
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
    const double middle = static_cast<double>(x.size() - 1) / 2;  // the mean of any ranks
    double xx = 0;
    double yy = 0;
    double xy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        xx += (x[i] - middle) * (x[i] - middle);
        yy += (y[i] - middle) * (y[i] - middle);
        xy += (x[i] - middle) * (y[i] - middle);
    }
    return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace

void PredictionReport::add(double predicted_ns, double actual_ns, bool known, bool class_error) {
    const double actual = std::max(actual_ns, 1.0);
    const double predicted = std::max(predicted_ns, 1.0);
    PredictionErrors& errors = added_ < kStart ? start_ : known ? warm_ : first_epoch_;
    ++errors.samples;
    errors.absolute += std::abs(predicted - actual) / actual;
    errors.logarithm += std::log(predicted / actual);
    errors.class_errors += class_error ? 1 : 0;

    // Each sample stays with the same chance. Source: Vitter, "Random sampling with a reservoir", algorithm
    // R.
    ++added_;
    if (kept_.size() < kKept) {
        kept_.emplace_back(predicted, actual);
        return;
    }
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t place = (random_ >> 32) * added_ >> 32;
    if (place < kKept) kept_[place] = {predicted, actual};
}

double PredictionReport::rank_correlation() const {
    if (kept_.size() < 2) return 0;
    std::vector<double> predicted;
    std::vector<double> actual;
    for (const auto& [p, a] : kept_) {
        predicted.push_back(p);
        actual.push_back(a);
    }
    return correlation(ranks_of(predicted), ranks_of(actual));
}

}  // namespace sl
