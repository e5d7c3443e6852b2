// The pass along columns: rows of bytes, weighed and added, whatever their pixels are.
//
// Called by Resampler only; thread safety and failures as in resample_kernels.h.
#include <algorithm>

#include "daemon/worker/transform/resample_kernels.h"

// The kernels rely on vectors made of 128-bit blocks of known number, which scalable vectors are not.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/worker/transform/resample_vertical.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "daemon/worker/transform/resample_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sl {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

// The weights of two source rows, in every lane.
struct RowPair {
    const std::uint8_t* top;
    const std::uint8_t* bottom;
    std::int32_t high, low;
};

HWY_INLINE RowPair row_pair(const VerticalJob& job, std::uint32_t y, std::uint32_t i) {
    const AxisTaps& taps = *job.taps;
    const std::int32_t* weights = &taps.weights[std::size_t{y} * taps.stride] + i;
    const bool alone = i + 1 == taps.count[y];
    const std::int32_t second = alone ? 0 : weights[1];
    constexpr std::int32_t low_mask = (1 << kHalfBits) - 1;
    const std::uint8_t* top = job.source + (taps.first[y] - job.first_row + i) * job.stride;
    return {top, alone ? top : top + job.stride, (weights[0] >> kHalfBits) | (second >> kHalfBits) << 16,
            (weights[0] & low_mask) | (second & low_mask) << 16};
}

// Sums for one vector of bytes; even and odd bytes go apart, so that packing them together again is one Or.
struct ByteSums {
    Sum even_low, even_high, odd_low, odd_high;

    HWY_INLINE void add(const RowPair& pair, std::size_t x) {
        const D8 d8;
        const D16 d16;
        const hn::ScalableTag<std::uint16_t> du16;
        const auto top = hn::BitCast(du16, hn::LoadU(d8, pair.top + x));
        const auto bottom = hn::BitCast(du16, hn::LoadU(d8, pair.bottom + x));
        const auto mask = hn::Set(du16, 255);
        const V16 top_even = hn::BitCast(d16, hn::And(top, mask));
        const V16 bottom_even = hn::BitCast(d16, hn::And(bottom, mask));
        const V16 top_odd = hn::BitCast(d16, hn::ShiftRight<8>(top));
        const V16 bottom_odd = hn::BitCast(d16, hn::ShiftRight<8>(bottom));
        const V16 high = weights_at(&pair.high);
        const V16 low = weights_at(&pair.low);
        even_low.add(hn::InterleaveLower(d16, top_even, bottom_even), high, low);
        even_high.add(hn::InterleaveUpper(d16, top_even, bottom_even), high, low);
        odd_low.add(hn::InterleaveLower(d16, top_odd, bottom_odd), high, low);
        odd_high.add(hn::InterleaveUpper(d16, top_odd, bottom_odd), high, low);
    }
    HWY_INLINE V8 bytes() const {
        return zip_bytes(narrow(even_low.value(), even_high.value()),
                         narrow(odd_low.value(), odd_high.value()));
    }
};

// One output row. kPairs: how many pairs of source rows, or 0 for as many as there are.
template <std::uint32_t kPairs>
void vertical_row(const VerticalJob& job, std::uint32_t y, std::uint8_t* out) {
    const D8 d8;
    constexpr std::size_t lanes = HWY_MAX_BYTES;
    const std::uint32_t count = job.taps->count[y];
    RowPair pairs[std::max(kPairs, 1u)];
    for (std::uint32_t i = 0; i < kPairs; ++i)
        pairs[i] = row_pair(job, y, 2 * i);
    for (std::size_t x = 0;; x += lanes) {
        x = std::min(x, job.row_bytes - lanes);  // the last vector may overlap the one before
        ByteSums sums = {new_sum(), new_sum(), new_sum(), new_sum()};
        if constexpr (kPairs == 0) {
            for (std::uint32_t i = 0; i < count; i += 2)
                sums.add(row_pair(job, y, i), x);
        } else {
            for (const RowPair& pair : pairs)
                sums.add(pair, x);
        }
        hn::StoreU(sums.bytes(), d8, out + x);
        if (x + lanes == job.row_bytes) return;
    }
}

void vertical_row_any(const VerticalJob& job, std::uint32_t y, std::uint8_t* out) {
    switch ((job.taps->count[y] + 1) / 2) {
        case 1:
            return vertical_row<1>(job, y, out);
        case 2:
            return vertical_row<2>(job, y, out);
        case 3:
            return vertical_row<3>(job, y, out);
        default:
            return vertical_row<0>(job, y, out);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR

void vertical_row_by_bytes(const VerticalJob& job, std::uint32_t y, std::uint8_t* out) {
    const AxisTaps& taps = *job.taps;
    const std::uint8_t* top = job.source + (taps.first[y] - job.first_row) * job.stride;
    const std::int32_t* weights = &taps.weights[std::size_t{y} * taps.stride];
    for (std::size_t x = 0; x < job.row_bytes; ++x)
        out[x] = weigh(top + x, job.stride, weights, taps.count[y]);
}

void vertical(const VerticalJob& job) {
    for (std::uint32_t y = 0; y < job.taps->out; ++y) {
        std::uint8_t* out = job.out + y * job.row_bytes;
#if HWY_TARGET != HWY_SCALAR
        if (job.row_bytes >= HWY_MAX_BYTES) {
            vertical_row_any(job, y, out);
            continue;
        }
#endif
        vertical_row_by_bytes(job, y, out);
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sl {

namespace {
HWY_EXPORT(vertical);
}  // namespace

void resample_vertical(const VerticalJob& job) {
    HWY_DYNAMIC_DISPATCH(vertical)(job);
}

}  // namespace sl
#endif
