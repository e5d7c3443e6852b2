// The predictor: features known before the work -> cost -> lane. One per stream, on the conductor thread.
//
// What it knows it has from a cost model, which the streams over the same dataset and pipeline share
// (cost_model.h); what it keeps for itself is how good its predictions were. A wrong prediction costs time,
// never correctness.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/predict/cost_model.h"
#include "daemon/predict/prediction_report.h"

namespace sl {

class Predictor {
  public:
    explicit Predictor(std::shared_ptr<CostModel> model) : model_(std::move(model)) {}
    // With a model of its own, for sample ids below `samples`.
    Predictor(const Pipeline& pipeline, std::uint64_t samples)
        : Predictor(std::make_shared<CostModel>(pipeline, samples)) {}

    // `format_hint`: the format its name suggests, 0 if none; what was observed of the sample goes before it.
    Prediction predict(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint) {
        return model_->predict(key, bytes, format_hint);
    }
    // Once more, later; by the format that its name suggests, or by the picture that its header shows.
    template <class Clue>
    Prediction renew(const DrawKey& key, std::uint64_t bytes, const Clue& clue) {
        return model_->renew(key, bytes, clue);
    }
    void observe(const DrawKey& key, std::uint64_t bytes, const Observed& observed) {
        model_->observe(key, bytes, observed);
    }
    // Counts how good a prediction was. Whether the cost belonged to another lane than it was given.
    bool judge(const Prediction& prediction, double actual_ns) {
        const bool class_error = lane_of(actual_ns) != prediction.lane;
        report_.add(prediction.cost_ns, actual_ns, prediction.known, class_error);
        return class_error;
    }

    // The lane that a cost belongs to now.
    [[nodiscard]] Lane lane_of(double cost_ns) const { return model_->classes().lane_of(cost_ns); }
    [[nodiscard]] double typical_ns() const { return model_->classes().typical_ns(); }
    [[nodiscard]] double mean_ns() const { return model_->mean_ns(); }

    [[nodiscard]] const PredictionReport& report() const { return report_; }
    [[nodiscard]] const CostModel& model() const { return *model_; }
    [[nodiscard]] const std::shared_ptr<CostModel>& shared_model() const { return model_; }

  private:
    std::shared_ptr<CostModel> model_;
    PredictionReport report_;
};

}  // namespace sl
