// Sums of weighted bytes in SIMD: what the two passes of a resize share.
//
// Included by resample_horizontal.cpp and resample_vertical.cpp, once for each of Highway's instruction sets
// (hence the odd include guard). Pure functions on vectors; nothing here can fail.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "daemon/worker/transform/taps.h"

#if defined(SL_RESAMPLE_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SL_RESAMPLE_SIMD_INL_H
#undef SL_RESAMPLE_SIMD_INL_H
#else
#define SL_RESAMPLE_SIMD_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sl {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kRound = 1 << (kWeightBits - 1);

std::uint8_t clip(std::int32_t sum) {
    return static_cast<std::uint8_t>(std::min(sum >> kWeightBits, 255));
}

// One output byte: the definition that every faster way must equal.
[[maybe_unused]] std::uint8_t weigh(const std::uint8_t* source, std::size_t step, const std::int32_t* weights,
                                    std::uint32_t count) {
    std::int32_t sum = kRound;
    for (std::uint32_t i = 0; i < count; ++i)
        sum += source[i * step] * weights[i];
    return clip(sum);
}

#if HWY_TARGET != HWY_SCALAR

using D8 = hn::ScalableTag<std::uint8_t>;
using D16 = hn::ScalableTag<std::int16_t>;
using D32 = hn::ScalableTag<std::int32_t>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

// A sum of 22-bit weights times bytes, as two sums of 11-bit halves: 16-bit multiply-add keeps both exact.
// (`spare` is for machines whose multiply-add spreads its sums over two vectors; unused on x86.)
struct Sum {
    V32 high, low, high_spare, low_spare;

    HWY_INLINE void add(V16 pixels, V16 high_weights, V16 low_weights) {
        const D32 d32;
        high = hn::ReorderWidenMulAccumulate(d32, pixels, high_weights, high, high_spare);
        low = hn::ReorderWidenMulAccumulate(d32, pixels, low_weights, low, low_spare);
    }
    HWY_INLINE V32 value() const {
        const V32 whole = hn::ShiftLeft<kHalfBits>(hn::RearrangeToOddPlusEven(high, high_spare));
        return hn::ShiftRight<kWeightBits>(hn::Add(whole, hn::RearrangeToOddPlusEven(low, low_spare)));
    }
};

// (A function and not a constructor: GCC compiles implicit constructors for the wrong instruction set.)
HWY_INLINE Sum new_sum() {
    const V32 zero = hn::Zero(D32());
    return {zero, hn::Set(D32(), kRound), zero, zero};
}

// Two vectors of sums -> bytes in the low halves of 16-bit lanes, block by block.
HWY_INLINE V16 narrow(V32 a, V32 b) {
    const D16 d16;
    return hn::Min(hn::ReorderDemote2To(d16, a, b), hn::Set(d16, 255));
}

// Even bytes and odd bytes -> all bytes.
HWY_INLINE V8 zip_bytes(V16 even, V16 odd) {
    return hn::BitCast(D8(), hn::Or(even, hn::ShiftLeft<8>(odd)));
}

HWY_INLINE V16 weights_at(const std::int32_t* word) {
    return hn::BitCast(D16(), hn::Set(D32(), *word));
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sl
HWY_AFTER_NAMESPACE();

#endif  // SL_RESAMPLE_SIMD_INL_H
