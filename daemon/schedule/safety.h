// By what factor predictions of long samples are to be taken longer, so that few are late.
//
// A running mean and spread of log(actual / predicted) over samples that are not light: late light samples
// cost next to nothing, and a missed heavy one says nothing about those that are known. One thread.
#pragma once

#include <algorithm>
#include <cmath>

namespace sl {

class Safety {
  public:
    void observe(double predicted_ns, double actual_ns) {
        if (predicted_ns <= 0 || actual_ns <= 0) return;
        const double off = std::clamp(std::log(actual_ns / predicted_ns), -kMostOff, kMostOff);
        count_ += 1;
        const double rate = std::max(kRate, 1 / (count_ + kPriorCount));
        const double from_mean = off - mean_;
        mean_ += rate * from_mean;
        variance_ += rate * (from_mean * from_mean - variance_);
        factor_ = std::clamp(std::exp(mean_ + kQuantile * std::sqrt(variance_)), kLeast, kMost);
    }
    [[nodiscard]] double factor() const { return factor_; }

  private:
    static constexpr double kQuantile = 1.65;  // 19 of 20, if the error is lognormal
    static constexpr double kLeast = 1.2;      // a machine is never quite free
    static constexpr double kMost = 6;
    static constexpr double kMostOff = 2;
    static constexpr double kRate = 0.02;
    static constexpr double kPriorCount = 8;  // samples that the first guess weighs

    double count_ = 0;
    double mean_ = 0;
    double variance_ = 0.06;  // an error of a quarter: a factor of 1.5
    double factor_ = 1.5;
};

}  // namespace sl
