#include "daemon/worker/transform/taps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sl {

namespace {

constexpr std::uint32_t kLoadBytes = 16;
constexpr std::uint32_t kLoadPixels = 4;

double triangle(double x) {
    x = std::fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

// Weights of 0 add nothing to a sum; dropping them at both ends saves their products.
void trim(AxisTaps& taps, std::uint32_t position) {
    std::int32_t* weights = &taps.weights[std::size_t{position} * taps.stride];
    std::uint32_t& first = taps.first[position];
    std::uint32_t& count = taps.count[position];
    while (count > 1 && weights[count - 1] == 0)
        --count;
    std::uint32_t zeros = 0;
    while (zeros + 1 < count && weights[zeros] == 0)
        ++zeros;
    if (zeros == 0) return;
    std::copy(weights + zeros, weights + count, weights);
    first += zeros;
    count -= zeros;
}

std::int32_t pack(std::int32_t left, std::int32_t right) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(left) | static_cast<std::uint32_t>(right)
                                                                            << 16);
}

struct Spot {
    std::uint32_t first, count;
    const std::int32_t* weights;

    // Weight of the source pixel `index` pixels after `start`.
    [[nodiscard]] std::int32_t at(std::uint32_t start, std::uint32_t index) const {
        const std::uint32_t pixel = start + index;
        return pixel < first || pixel - first >= count ? 0 : weights[pixel - first];
    }
};
using Spots = std::array<Spot, 4>;

// Finds where the loads of the group's four pixels start. False where one would be outside the row, or where
// moving it inside leaves too few pixels for all weights.
bool place(const Spots& spots, const RowShape& shape, TapGroup& group) {
    const std::uint32_t loads = (group.pairs + 1) / 2;
    const std::int64_t readable = std::int64_t{shape.readable_pixels} * shape.pixel_bytes;
    const std::int64_t slack = kLoadBytes - kLoadPixels * shape.pixel_bytes;  // bytes of a load left unused
    const std::int64_t later = std::int64_t{loads - 1} * kLoadPixels * shape.pixel_bytes;
    const std::int64_t last_byte = readable - later - kLoadBytes + (group.at_end ? slack : 0);
    if (last_byte < 0) return false;
    const auto last_start = static_cast<std::uint32_t>(last_byte / shape.pixel_bytes);
    for (std::size_t i = 0; i < spots.size(); ++i) {
        const std::uint32_t start = std::min(spots[i].first, last_start);
        if (spots[i].first - start + spots[i].count > 2 * group.pairs) return false;
        const std::int64_t offset = std::int64_t{start} * shape.pixel_bytes - (group.at_end ? slack : 0);
        if (offset < 0) return false;
        group.offset[i] = static_cast<std::uint32_t>(offset);
    }
    return true;
}

// Tries the ways to place a group, cheapest first. Moving loads to the left costs at most two pairs, and a
// last load used for one pair only costs one.
bool place_any(const Spots& spots, const RowShape& shape, TapGroup& group) {
    std::uint32_t most = 0;
    for (const Spot& spot : spots)
        most = std::max(most, spot.count);
    const std::uint32_t least = (most + 1) / 2;
    for (group.pairs = least; group.pairs <= least + 3; ++group.pairs) {
        for (const bool at_end : {false, true}) {
            group.at_end = at_end;
            if (place(spots, shape, group)) return true;
        }
    }
    return false;
}

void append_words(const Spots& spots, const RowShape& shape, const TapGroup& group,
                  std::vector<std::int32_t>& words) {
    const std::uint32_t slack = group.at_end ? kLoadBytes - kLoadPixels * shape.pixel_bytes : 0;
    constexpr std::int32_t low_mask = (1 << kHalfBits) - 1;
    for (std::size_t i = 0; i < spots.size(); ++i) {
        const std::uint32_t start = (group.offset[i] + slack) / shape.pixel_bytes;
        for (std::uint32_t pair = 0; pair < group.pairs; ++pair) {
            const std::int32_t left = spots[i].at(start, 2 * pair);
            const std::int32_t right = spots[i].at(start, 2 * pair + 1);
            words.push_back(pack(left >> kHalfBits, right >> kHalfBits));
            words.push_back(pack(left & low_mask, right & low_mask));
        }
    }
}

}  // namespace

void compute_taps(std::uint32_t in, std::uint32_t out, AxisTaps& taps) {
    if (taps.in == in && taps.out == out) return;
    taps.in = taps.out = 0;  // a table whose allocation fails half-way must not look finished
    const double scale = static_cast<double>(in) / out;
    const double support = std::max(scale, 1.0);  // the triangle's half width, widened when shrinking
    const double step = 1.0 / support;
    taps.stride = static_cast<std::uint32_t>(std::ceil(support)) * 2 + 1;
    taps.first.resize(out);
    taps.count.resize(out);
    taps.weights.resize(std::size_t{out} * taps.stride);
    std::vector<double> row(taps.stride);
    for (std::uint32_t position = 0; position < out; ++position) {
        const double center = (position + 0.5) * scale;
        const auto left = static_cast<std::int64_t>(center - support + 0.5);
        const auto right = static_cast<std::int64_t>(center + support + 0.5);
        const std::int64_t first = std::max<std::int64_t>(left, 0);
        const std::int64_t count = std::min<std::int64_t>(right, in) - first;
        double total = 0.0;
        for (std::int64_t i = 0; i < count; ++i) {
            row[i] = triangle((static_cast<double>(i + first) - center + 0.5) * step);
            total += row[i];
        }
        std::int32_t* weights = &taps.weights[std::size_t{position} * taps.stride];
        for (std::int64_t i = 0; i < count; ++i) {
            const double share = total != 0.0 ? row[i] / total : row[i];
            weights[i] = static_cast<std::int32_t>(0.5 + share * (1 << kWeightBits));
        }
        taps.first[position] = static_cast<std::uint32_t>(first);
        taps.count[position] = static_cast<std::uint32_t>(count);
        trim(taps, position);
    }
    taps.in = in;
    taps.out = out;
}

bool build_row_plan(const AxisTaps& taps, const RowShape& shape, RowPlan& plan) {
    plan.groups.clear();
    plan.words.clear();
    for (std::uint32_t base = 0; base < taps.out; base += kLoadPixels) {
        Spots spots;
        for (std::uint32_t i = 0; i < kLoadPixels; ++i) {
            const std::uint32_t position = std::min(base + i, taps.out - 1);
            const std::uint32_t source = shape.flip ? taps.out - 1 - position : position;
            spots[i] = {taps.first[source], taps.count[source],
                        &taps.weights[std::size_t{source} * taps.stride]};
        }
        TapGroup group;
        group.words = static_cast<std::uint32_t>(plan.words.size());
        if (!place_any(spots, shape, group)) return false;
        append_words(spots, shape, group, plan.words);
        plan.groups.push_back(group);
    }
    return true;
}

}  // namespace sl
