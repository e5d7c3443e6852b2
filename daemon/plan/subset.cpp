// Which ids a selection holds; see subset.h. Pure, any thread.
#include "daemon/plan/subset.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "daemon/plan/random.h"

namespace sl {
namespace {

using Wide = unsigned __int128;

std::string shortest(double v) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), v).ptr};
}

}  // namespace

std::uint64_t fold(std::uint64_t hash, std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
        hash = (hash ^ ((number >> shift) & 0xff)) * 0x100000001b3U;
    return hash;
}

Selection::Selection(std::uint64_t samples) : samples_(samples) {
    add({0, samples});
}

void Selection::add(const Run& run) {
    if (run.count == 0) return;
    // Runs that touch are one: the fingerprint is of the samples, however they were asked for.
    const bool goes_on = !pieces_.empty() && pieces_.back().id + (size_ - pieces_.back().index) == run.first;
    if (!goes_on) pieces_.push_back({size_, run.first});
    size_ += run.count;
}

Result<Selection> Selection::of_fraction(std::uint64_t samples, double fraction, std::string_view key) {
    const double wanted = std::round(fraction * static_cast<double>(samples));
    if (wanted >= static_cast<double>(samples)) return Selection(samples);
    if (wanted < 1) {
        return fail(Status::kSpec, std::string(key) + ".fraction is " + shortest(fraction) +
                                       ", which is none of " + std::to_string(samples) + " samples");
    }
    return Selection(samples, static_cast<std::uint64_t>(wanted));
}

Result<Selection> Selection::of_ids(std::uint64_t samples, const std::vector<std::uint64_t>& ids,
                                    std::string_view key) {
    if (!ids.empty() && ids.back() >= samples) {
        return fail(Status::kSpec, std::string(key) + ".ids has " + std::to_string(ids.back()) +
                                       ", allowed: less than the dataset's samples, " +
                                       std::to_string(samples));
    }
    std::vector<Run> runs;
    for (const std::uint64_t id : ids) {
        if (!runs.empty() && runs.back().first + runs.back().count == id) {
            ++runs.back().count;
        } else {
            runs.push_back({id, 1});
        }
    }
    return of_runs(samples, runs);
}

Selection Selection::of_runs(std::uint64_t samples, const std::vector<Run>& runs) {
    Selection made(samples, 0);
    for (const Run& run : runs)
        made.add(run);
    return made;
}

std::uint64_t Selection::stretch_start(std::uint64_t index) const {
    return static_cast<std::uint64_t>(Wide{index} * samples_ / size_);
}

std::uint64_t Selection::id_at(std::uint64_t index) const {
    if (pieces_.empty()) {
        const std::uint64_t start = stretch_start(index);
        Random random({.seed = 0, .epoch = 0, .sample_id = index}, kSubsetSlot);
        return start + random.below(stretch_start(index + 1) - start);
    }
    const auto piece = std::ranges::upper_bound(pieces_, index, {}, &Piece::index) - 1;
    return piece->id + (index - piece->index);
}

std::optional<std::uint64_t> Selection::index_of(std::uint64_t id) const {
    if (id >= samples_ || size_ == 0) return std::nullopt;
    std::uint64_t index = 0;
    if (pieces_.empty()) {
        // The last stretch that starts at or before the id: the largest i with i x n / m < id + 1.
        index = static_cast<std::uint64_t>(((Wide{id} + 1) * size_ - 1) / samples_);
    } else {
        const auto next = std::ranges::upper_bound(pieces_, id, {}, &Piece::id);
        if (next == pieces_.begin()) return std::nullopt;
        index = (next - 1)->index + (id - (next - 1)->id);
    }
    // Whoever is not selected has come upon another's index, or behind the last.
    return index < size_ && id_at(index) == id ? std::optional(index) : std::nullopt;
}

std::uint64_t Selection::fingerprint(std::uint64_t dataset) const {
    if (size_ == samples_) return dataset;
    std::uint64_t hash = fold(dataset, size_);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        const std::uint64_t end = i + 1 < pieces_.size() ? pieces_[i + 1].index : size_;
        hash = fold(fold(hash, pieces_[i].id), end - pieces_[i].index);
    }
    return hash;
}

}  // namespace sl
