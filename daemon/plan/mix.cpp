// The arithmetic of a mix; see mix.h. Pure, any thread; only make() can fail.
#include "daemon/plan/mix.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

namespace sl {
namespace {

using Wide = unsigned __int128;

std::uint64_t narrow(Wide value) {
    return static_cast<std::uint64_t>(value);
}

std::string shortest(double v) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), v).ptr};
}

// Scaled by a power of two, which changes no ratio, so that no product or quotient below overflows.
std::vector<double> scaled(const std::vector<double>& weights) {
    const int exponent = std::ilogb(std::ranges::max(weights));
    std::vector<double> out;
    for (const double weight : weights)
        out.push_back(std::scalbn(weight, -exponent));
    return out;
}

// How many samples each part gives, by weights.
Result<std::vector<std::uint64_t>> counts_of(const std::vector<Selection>& parts,
                                             const std::vector<double>& weights) {
    const std::vector<double> w = scaled(weights);
    auto rounds = [&](std::size_t i) { return static_cast<double>(parts[i].size()) / w[i]; };
    std::size_t scarce = 0;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        if (rounds(i) < rounds(scarce)) scarce = i;
    }
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::uint64_t all = parts[i].size();
        const double wanted = static_cast<double>(parts[scarce].size()) * w[i] / w[scarce];
        const bool whole = i == scarce || wanted >= static_cast<double>(all);
        const double rounded = std::round(wanted);
        counts.push_back(whole ? all : std::min(all, static_cast<std::uint64_t>(rounded)));
        if (counts.back() > 0) continue;
        return fail(Status::kSpec, "dataset.weights[" + std::to_string(i) + "] is " + shortest(weights[i]) +
                                       ", which is " + shortest(wanted) + " samples an epoch, beside all " +
                                       std::to_string(parts[scarce].size()) + " of dataset.parts[" +
                                       std::to_string(scarce) + "] with weight " + shortest(weights[scarce]) +
                                       "; allowed: at least half a sample");
    }
    return counts;
}

}  // namespace

Result<Mix> Mix::make(std::vector<Selection> parts, const std::vector<double>& weights) {
    std::vector<std::uint64_t> counts;
    for (const Selection& part : parts)
        counts.push_back(part.size());
    if (!weights.empty()) {
        auto weighted = counts_of(parts, weights);
        if (!weighted) return std::unexpected(std::move(weighted).error());
        counts = std::move(*weighted);
    }
    Mix mix;
    Wide ids = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::uint64_t first = narrow(ids);
        ids += parts[i].whole();
        if (ids > kMaxSamples) return fail(Status::kSpec, "dataset.parts have more than 2^63 samples");
        mix.parts_.push_back({std::move(parts[i]), first, counts[i]});
    }
    mix.take_turns();
    return mix;
}

void Mix::take_turns() {
    turns_.resize(parts_.size());
    std::iota(turns_.begin(), turns_.end(), 0);
    std::ranges::stable_sort(turns_, std::greater(), [this](std::size_t i) { return parts_[i].count; });
    std::uint64_t left = 0;
    for (std::size_t turn = turns_.size(); turn-- > 0;) {
        Part& part = parts_[turns_[turn]];
        part.turn = turn;
        part.left = left += part.count;
    }
}

// With h = floor(m / 2), part has floor((P x c + h) / m) of the first P positions: so it takes p, as its
// sample of the number that gives for p, if that number grows by one for p + 1.
Mix::Place Mix::place_at(std::uint64_t position) const {
    for (std::size_t turn = 0; turn + 1 < turns_.size(); ++turn) {
        const Part& part = parts_[turns_[turn]];
        const Wide share = Wide{position} * part.count + part.left / 2;
        const std::uint64_t before = narrow(share / part.left);
        const std::uint64_t rest = narrow(share) - before * part.left;  // exact modulo 2^64, and so at all
        if (rest >= part.left - part.count) return {turns_[turn], before};
        position -= before;
    }
    return {turns_.back(), position};
}

std::uint64_t Mix::position_of(const Place& place) const {
    const Part& own = parts_[place.part];
    std::uint64_t position = place.number;
    if (own.turn + 1 < turns_.size()) {
        // The smallest p with (p + 1) x c + h >= (number + 1) x m.
        const Wide share = (Wide{position} + 1) * own.left - own.left / 2;
        position = narrow((share + own.count - 1) / own.count) - 1;
    }
    for (std::size_t turn = own.turn; turn-- > 0;) {
        // The largest p that has at most `position` before it that the part does not take.
        const Part& part = parts_[turns_[turn]];
        position = narrow((Wide{position} * part.left + part.left / 2) / (part.left - part.count));
    }
    return position;
}

std::size_t Mix::part_of(std::uint64_t id) const {
    const auto next = std::ranges::upper_bound(parts_, id, {}, &Part::first_id);
    return static_cast<std::size_t>(next - parts_.begin()) - 1;
}

std::uint64_t Mix::fingerprint(std::span<const std::uint64_t> parts) const {
    std::uint64_t hash = fold(kFoldBasis, parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i)
        hash = fold(fold(hash, parts[i]), parts_[i].count);
    return hash;
}

MixOrder::MixOrder(std::shared_ptr<const Mix> mix, std::uint64_t seed, std::uint64_t epoch, bool shuffle)
    : mix_(std::move(mix)) {
    orders_.reserve(mix_->parts().size());
    for (const Mix::Part& part : mix_->parts()) {
        const std::uint64_t all = part.selection.size();
        const Order window(part.count, seed, epoch, shuffle);
        if (part.count == all) {
            orders_.push_back({window, Order(all, 0, 0, false), 0});
        } else {
            const std::uint64_t start = narrow(Wide{epoch} * part.count % all);
            orders_.push_back({window, Order(all, seed, 0, shuffle), start});
        }
        ++seed;  // else parts of the same size would pair the same numbers in every epoch
    }
}

std::uint64_t MixOrder::id_at(std::uint64_t position) const {
    const Mix::Place place = mix_->place_at(position);
    const Mix::Part& part = mix_->parts()[place.part];
    const PartOrder& order = orders_[place.part];
    const std::uint64_t all = part.selection.size();
    std::uint64_t turn = order.start + order.window.id_at(place.number);
    if (turn >= all) turn -= all;
    return part.first_id + part.selection.id_at(order.round.id_at(turn));
}

std::optional<std::uint64_t> MixOrder::position_of(std::uint64_t id) const {
    const std::size_t number = mix_->part_of(id);
    const Mix::Part& part = mix_->parts()[number];
    const PartOrder& order = orders_[number];
    const auto index = part.selection.index_of(id - part.first_id);
    if (!index) return std::nullopt;
    const std::uint64_t turn = order.round.position_of(*index);
    const std::uint64_t all = part.selection.size();
    const std::uint64_t in_window = turn >= order.start ? turn - order.start : turn + all - order.start;
    if (in_window >= part.count) return std::nullopt;
    return mix_->position_of({number, order.window.position_of(in_window)});
}

}  // namespace sl
