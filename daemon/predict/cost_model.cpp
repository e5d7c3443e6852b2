#include "daemon/predict/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sl {

namespace {

constexpr double kFloorNs = 20e3;      // nothing costs less than this: opening, entropy tables, one resize
constexpr double kCeilingNs = 3.6e12;  // nor more than an hour
constexpr double kFirstMeanNs = 1.2e6;
constexpr std::uint64_t kMeanWindow = 200;
constexpr double kMs = 1e-6;  // in a nanosecond

constexpr double kBytesPerMeanHint = 1000;
constexpr double kMostItemBytes = 1e15;
constexpr Regression::Features kUsualItem = {0.2, 0.8, 0, 0};  // of what one costs: most grows with its hint
constexpr std::uint64_t kMeasured = 32;                        // items that are averaged
// A client may name any numbers as items: beyond, they are not remembered one by one (8 bytes each).
constexpr std::uint64_t kMostItemsKnown = std::uint64_t{1} << 25;

double bounded(double cost_ms) {
    return std::clamp(cost_ms / kMs, kFloorNs, kCeilingNs);
}

bool are_weights(const CostModel::Learned::Weights& weights) {
    constexpr double kMost = 1e6;  // milliseconds per megabyte or megapixel
    return std::isfinite(weights.seen) && weights.seen > 0 &&
           std::ranges::all_of(weights.weights,
                               [](double w) { return std::isfinite(w) && std::abs(w) < kMost; });
}

std::uint32_t number_of(std::uint32_t format) {
    return format < kFormats ? format : 0;
}

}  // namespace

CostModel::CostModel(const Pipeline& pipeline, std::uint64_t samples)
    : pipeline_(pipeline), history_(std::make_unique<SampleHistory>(samples)), mean_ns_(kFirstMeanNs) {
    for (std::uint32_t format = 0; format < kFormats; ++format) {
        known_[2 * format].regression = Regression(usual_cost(format, false));
        known_[2 * format + 1].regression = Regression(usual_cost(format, true));
        fresh_[format].regression = Regression(usual_cost(format, false));
    }
}

CostModel::CostModel(const Items& items) : CostModel(Pipeline{}, 0) {
    bytes_per_hint_ = kBytesPerMeanHint / items.mean_hint;
    known_[0].regression = Regression(kUsualItem);
    fresh_[0].regression = Regression(kUsualItem);
    make_room(items.end);
}

std::uint64_t CostModel::bytes_of(double hint) const {
    return static_cast<std::uint64_t>(std::clamp(hint * bytes_per_hint_, 1.0, kMostItemBytes));
}

void CostModel::make_room(std::uint64_t items_end) {
    if (items_end > kMostItemsKnown || items_end <= history_->samples()) return;
    history_ = SampleHistory::grown(*history_, items_end);
}

Regression::Features CostModel::features(const DrawKey& key, std::uint64_t bytes,
                                         const Picture& picture) const {
    if (bytes_per_hint_ > 0) return {1, static_cast<double>(bytes) / kBytesPerMeanHint, 0, 0};
    return cost_features(pipeline_, key, bytes, picture);
}

bool CostModel::is_unmeasured() const {
    return bytes_per_hint_ > 0 && observations_ <= kMeasured;
}

// The unit in which items are counted: the geometric mean, which one item of a hundred times the cost hardly
// moves.
void CostModel::measure(const Regression::Features& x, double cost_ms) {
    log_unit_ += std::log(cost_ms / Regression(kUsualItem).predict(x));
    const auto seen = static_cast<double>(observations_);
    Regression::Features weights = kUsualItem;
    for (double& weight : weights)
        weight *= std::exp(log_unit_ / seen);
    known_[0] = {Regression(weights), seen};
    fresh_[0] = known_[0];
}

Prediction CostModel::predict(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint) {
    const auto record = history_->find(key.sample_id, bytes);
    const double cost = cost_of(key, bytes, format_hint, record);
    classes_.add(cost);
    if (mean_is_guessed_) count_mean(cost);
    return classed(key, bytes, cost, record);
}

Prediction CostModel::renew(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint) {
    const auto record = history_->find(key.sample_id, bytes);
    return classed(key, bytes, cost_of(key, bytes, format_hint, record), record);
}

Prediction CostModel::renew(const DrawKey& key, std::uint64_t bytes, const Picture& header) {
    const auto record = history_->find(key.sample_id, bytes);
    if (record) return classed(key, bytes, cost_of(key, bytes, 0, record), record);
    Picture picture = header;
    picture.format = number_of(header.format);
    const auto x = cost_features(pipeline_, key, bytes, picture);
    return classed(key, bytes, bounded(known_[known_index(picture)].regression.predict(x)), record);
}

double CostModel::cost_of(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint,
                          const std::optional<SampleRecord>& record) const {
    if (record) {
        const auto x = features(key, bytes, record->picture);
        return bounded(known_[known_index(record->picture)].regression.predict(x) *
                       std::exp(record->residual));
    }
    const std::uint32_t format = number_of(format_hint);
    const auto x = features(key, bytes, sizes_[format].guess(bytes, format));
    return bounded(fresh_[format].regression.predict(x));
}

// A sample that had a class before keeps it near a border.
Prediction CostModel::classed(const DrawKey& key, std::uint64_t bytes, double cost_ns,
                              const std::optional<SampleRecord>& record) {
    if (!record) return {cost_ns, classes_.lane_of(cost_ns), false};
    const Lane lane = classes_.lane_of(cost_ns, static_cast<Lane>(record->lane));
    history_->set_lane(key.sample_id, bytes, static_cast<std::uint32_t>(lane));
    return {cost_ns, lane, true};
}

void CostModel::observe(const DrawKey& key, std::uint64_t bytes, const Observed& observed) {
    Picture picture;  // of an item none, whatever its guest says
    if (bytes_per_hint_ == 0) {
        picture = {.format = number_of(observed.format),
                   .width = observed.width,
                   .height = observed.height,
                   .progressive = observed.progressive};
    }
    if (!std::isfinite(observed.cost_ns)) return;
    const double cost_ns = std::clamp(observed.cost_ns, 1.0, kCeilingNs);
    const double cost_ms = cost_ns * kMs;
    ++observations_;
    if (std::exchange(mean_is_guessed_, false)) counted_in_mean_ = 0;
    count_mean(cost_ns);

    const bool first = !history_->find(key.sample_id, bytes);
    if (first && !is_unmeasured()) {
        Model& fresh = fresh_[picture.format];
        SizeGuess& sizes = sizes_[picture.format];
        fresh.regression.observe(features(key, bytes, sizes.guess(bytes, picture.format)), cost_ms);
        fresh.seen += 1;
        sizes.learn(bytes, picture);
    }
    Model& model = known_[known_index(picture)];
    const auto x = features(key, bytes, picture);
    if (is_unmeasured()) measure(x, cost_ms);
    const double expected = bounded(model.regression.predict(x)) * kMs;
    history_->learn(key.sample_id, bytes, picture, std::log(cost_ms / expected));
    if (first) {
        const Lane turned_out = classes_.lane_of(cost_ns);
        history_->set_lane(key.sample_id, bytes, static_cast<std::uint32_t>(turned_out));
    }
    if (is_unmeasured()) return;
    model.regression.observe(x, cost_ms);
    model.seen += 1;
}

void CostModel::count_mean(double cost_ns) {
    counted_in_mean_ = std::min(counted_in_mean_ + 1, kMeanWindow);
    const double step = 1 / static_cast<double>(counted_in_mean_);
    mean_ns_ += step * (cost_ns - mean_ns_);
}

CostModel::Learned CostModel::learned() const {
    Learned learned;
    for (std::size_t i = 0; i < known_.size(); ++i)
        learned.known[i] = {known_[i].regression.weights(), known_[i].seen};
    for (std::size_t i = 0; i < fresh_.size(); ++i) {
        learned.fresh[i] = {fresh_[i].regression.weights(), fresh_[i].seen};
        learned.sizes[i] = sizes_[i].state();
    }
    learned.typical_ns = classes_.typical_ns();
    learned.mean_ns = mean_ns_;
    return learned;
}

void CostModel::restore(const Learned& learned, std::unique_ptr<SampleHistory> history) {
    const auto take = [](Model& model, const Learned::Weights& from) {
        if (are_weights(from)) model = {Regression(from.weights, from.seen), from.seen};
    };
    for (std::size_t i = 0; i < known_.size(); ++i)
        take(known_[i], learned.known[i]);
    for (std::size_t i = 0; i < fresh_.size(); ++i) {
        take(fresh_[i], learned.fresh[i]);
        sizes_[i].restore(learned.sizes[i]);
    }
    classes_.restore(learned.typical_ns);
    if (std::isfinite(learned.mean_ns) && learned.mean_ns > 0) {
        mean_ns_ = learned.mean_ns;
        counted_in_mean_ = kMeanWindow / 4;
        mean_is_guessed_ = false;
    }
    history_ = std::move(history);
}

}  // namespace sl
