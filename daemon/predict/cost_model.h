// What has been learned of one dataset under one pipeline: what samples cost, which of them cost more than
// they look, and the classes. Shared by all streams over both.
//
// Owned by the conductor thread; only history() is read by another one meanwhile (cost_store.h). Two online
// regressions per picture format (progressive JPEGs apart): one for samples whose picture is known from an
// earlier decode, with that sample's own residual on top, and one for samples seen for the first time, which
// is learned over guessed pictures and so weighs the guess by what it is worth.
//
// Items that guests make have no picture: their one feature is the hint that came with them, if any. Nothing
// is known of what they cost either, not even the order of magnitude, so the first few are only averaged.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/plan/pipeline.h"
#include "daemon/predict/cost_classes.h"
#include "daemon/predict/cost_features.h"
#include "daemon/predict/regression.h"
#include "daemon/predict/sample_history.h"

namespace sl {

// What the worker found out about a picture; kept per sample for later epochs.
struct Observed {
    std::uint32_t format = 0;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    bool progressive = false;
    double cost_ns = 0;  // CPU time of decode and transforms
};

struct Prediction {
    double cost_ns = 0;
    Lane lane = Lane::kLight;
    bool known = false;  // the sample has been decoded before
};

class CostModel {
  public:
    // All that is kept beside the history, as plain numbers.
    struct Learned {
        struct Weights {
            Regression::Features weights{};
            double seen = 0;
        };
        std::array<Weights, 2 * std::size_t{kFormats}> known{};
        std::array<Weights, kFormats> fresh{};
        std::array<SizeGuess::State, kFormats> sizes{};
        double typical_ns = 0;
        double mean_ns = 0;
    };

    // `samples`: ids are below it.
    CostModel(const Pipeline& pipeline, std::uint64_t samples);
    struct Items {
        std::uint64_t end = 0;  // they are below it
        double mean_hint = 1;   // finite, above 0
    };
    explicit CostModel(const Items& items);
    // Of items: what stands for the size of one with that hint. The history knows an item again by it.
    [[nodiscard]] std::uint64_t bytes_of(double hint) const;
    // Of items: there are more than was thought.
    void make_room(std::uint64_t items_end);

    // A sample's first prediction: counts in the classes and, while nothing has been decoded, in the mean.
    // `format_hint`: the format its name suggests, 0 if none; what was observed of the sample goes before it.
    Prediction predict(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint);
    // The same sample's with what has been learned since. Counts nowhere.
    Prediction renew(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint);
    // The same with the picture that its header shows; what was observed of the sample goes before it.
    Prediction renew(const DrawKey& key, std::uint64_t bytes, const Picture& header);
    void observe(const DrawKey& key, std::uint64_t bytes, const Observed& observed);

    [[nodiscard]] const CostClasses& classes() const { return classes_; }
    [[nodiscard]] double mean_ns() const { return mean_ns_; }
    [[nodiscard]] const SampleHistory& history() const { return *history_; }
    [[nodiscard]] std::uint64_t observations() const { return observations_; }

    [[nodiscard]] Learned learned() const;
    // Goes on from what was learned earlier. Numbers that are no weights leave their model as it began.
    void restore(const Learned& learned, std::unique_ptr<SampleHistory> history);

  private:
    static std::size_t known_index(const Picture& picture) {
        return std::size_t{2} * picture.format + (picture.progressive ? 1 : 0);
    }
    struct Model {
        Regression regression;
        double seen = 0;
    };
    [[nodiscard]] double cost_of(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint,
                                 const std::optional<SampleRecord>& record) const;
    Prediction classed(const DrawKey& key, std::uint64_t bytes, double cost_ns,
                       const std::optional<SampleRecord>& record);
    void count_mean(double cost_ns);
    [[nodiscard]] Regression::Features features(const DrawKey& key, std::uint64_t bytes,
                                                const Picture& picture) const;
    [[nodiscard]] bool is_unmeasured() const;
    void measure(const Regression::Features& x, double cost_ms);

    Pipeline pipeline_;
    double bytes_per_hint_ = 0;  // 0: they are pictures
    double log_unit_ = 0;        // of items: sum of log cost over what the beginning says
    std::array<Model, 2 * std::size_t{kFormats}> known_;
    std::array<Model, kFormats> fresh_;
    std::array<SizeGuess, kFormats> sizes_;
    std::unique_ptr<SampleHistory> history_;
    CostClasses classes_;
    double mean_ns_;
    std::uint64_t counted_in_mean_ = 0;
    bool mean_is_guessed_ = true;  // made of predictions, for want of anything better
    std::uint64_t observations_ = 0;
};

}  // namespace sl
