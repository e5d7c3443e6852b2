// The pass along rows. A vector holds the same output pixel of several rows, a row in each 128-bit block: all
// blocks then share the weights, and one byte shuffle makes the multiply-add's operands.
//
// Called by Resampler only; thread safety and failures as in resample_kernels.h.
#include <algorithm>

#include "daemon/worker/transform/resample_kernels.h"

// The kernels rely on vectors made of 128-bit blocks of known number, which scalable vectors are not.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/worker/transform/resample_horizontal.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "daemon/worker/transform/resample_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sl {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

void horizontal(const HorizontalJob& job) {
    const AxisTaps& taps = *job.taps;
    for (std::uint32_t y = 0; y < job.rows; ++y) {
        const std::uint8_t* row = job.source + y * job.stride;
        std::uint8_t* out = job.out + y * job.out_stride;
        for (std::uint32_t x = 0; x < taps.out; ++x) {
            const std::uint32_t position = job.flip ? taps.out - 1 - x : x;
            const std::uint8_t* pixel = row + std::size_t{taps.first[position]} * job.pixel_bytes;
            for (std::uint32_t c = 0; c < job.out_bytes; ++c) {
                out[x * job.out_bytes + c] =
                    weigh(pixel + c, job.pixel_bytes, &taps.weights[std::size_t{position} * taps.stride],
                          taps.count[position]);
            }
        }
    }
}

#else

constexpr std::size_t kBlocks = HWY_MAX_BYTES / 16;

// 16 bytes of each of kBlocks rows, a row a block.
HWY_INLINE V8 load_blocks(const std::uint8_t* const* rows, std::size_t offset) {
    const hn::FixedTag<std::uint8_t, 16> block;
#if HWY_MAX_BYTES == 64
    const hn::FixedTag<std::uint8_t, 32> half;
    const auto low =
        hn::Combine(half, hn::LoadU(block, rows[1] + offset), hn::LoadU(block, rows[0] + offset));
    const auto high =
        hn::Combine(half, hn::LoadU(block, rows[3] + offset), hn::LoadU(block, rows[2] + offset));
    return hn::Combine(D8(), high, low);
#elif HWY_MAX_BYTES == 32
    return hn::Combine(D8(), hn::LoadU(block, rows[1] + offset), hn::LoadU(block, rows[0] + offset));
#else
    return hn::LoadU(block, rows[0] + offset);
#endif
}

HWY_INLINE void store_blocks(V8 v, std::uint8_t* const* rows, std::size_t offset) {
    const hn::FixedTag<std::uint8_t, 16> block;
#if HWY_MAX_BYTES == 64
    const hn::FixedTag<std::uint8_t, 32> half;
    const auto low = hn::LowerHalf(half, v);
    const auto high = hn::UpperHalf(half, v);
    hn::StoreU(hn::LowerHalf(block, low), block, rows[0] + offset);
    hn::StoreU(hn::UpperHalf(block, low), block, rows[1] + offset);
    hn::StoreU(hn::LowerHalf(block, high), block, rows[2] + offset);
    hn::StoreU(hn::UpperHalf(block, high), block, rows[3] + offset);
#elif HWY_MAX_BYTES == 32
    hn::StoreU(hn::LowerHalf(block, v), block, rows[0] + offset);
    hn::StoreU(hn::UpperHalf(block, v), block, rows[1] + offset);
#else
    hn::StoreU(v, block, rows[0] + offset);
#endif
}

constexpr std::uint8_t kNone = 0x80;  // table look-ups give 0 for it

// Byte orders of the horizontal pass. A pair vector holds, for each channel, two neighbouring pixels' bytes
// as 16-bit numbers: R0 R1 G0 G1 B0 B1 (X0 X1).
struct ByteOrders {
    alignas(16) std::uint8_t first_pair[16];
    alignas(16) std::uint8_t second_pair[16];
};

ByteOrders pair_orders(std::uint32_t pixel_bytes, bool at_end) {
    ByteOrders orders;
    const std::uint32_t base = at_end ? 16 - 4 * pixel_bytes : 0;
    for (std::uint32_t i = 0; i < 16; ++i) {
        const std::uint32_t channel = i / 4;
        const std::uint32_t pixel = i / 2 % 2;
        const bool none = i % 2 == 1 || channel >= pixel_bytes;
        const std::uint32_t byte = base + pixel * pixel_bytes + channel;
        orders.first_pair[i] = none ? kNone : static_cast<std::uint8_t>(byte);
        orders.second_pair[i] = none ? kNone : static_cast<std::uint8_t>(byte + 2 * pixel_bytes);
    }
    return orders;
}

struct PairOrders {
    V8 first, second;

    explicit PairOrders(const ByteOrders& orders)
        : first(hn::LoadDup128(D8(), orders.first_pair)), second(hn::LoadDup128(D8(), orders.second_pair)) {}
};

// One output pixel of each of kBlocks rows. kPairs: how many, or 0 for `pairs`.
template <std::uint32_t kPairs>
HWY_INLINE V32 weigh_pixel(const std::uint8_t* const* rows, std::size_t offset, std::uint32_t pairs,
                           std::size_t load_step, const PairOrders& orders, const std::int32_t* words) {
    const D16 d16;
    const std::uint32_t n = kPairs == 0 ? pairs : kPairs;
    Sum sum = new_sum();
    for (std::uint32_t i = 0; i + 1 < n; i += 2, words += 4, offset += load_step) {
        const V8 bytes = load_blocks(rows, offset);
        sum.add(hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, orders.first)), weights_at(words),
                weights_at(words + 1));
        sum.add(hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, orders.second)), weights_at(words + 2),
                weights_at(words + 3));
    }
    if (n % 2 == 1) {
        const V8 bytes = load_blocks(rows, offset);
        sum.add(hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, orders.first)), weights_at(words),
                weights_at(words + 1));
    }
    return sum.value();
}

// Four output pixels of each of kBlocks rows, in the byte order that zip_bytes leaves.
template <std::uint32_t kPairs>
HWY_INLINE V8 weigh_group(const std::uint8_t* const* rows, const TapGroup& group, std::size_t load_step,
                          const PairOrders& orders, const std::int32_t* words) {
    const std::uint32_t n = kPairs == 0 ? group.pairs : kPairs;
    const std::size_t step = std::size_t{2} * n;
    const V32 p0 = weigh_pixel<kPairs>(rows, group.offset[0], n, load_step, orders, words);
    const V32 p1 = weigh_pixel<kPairs>(rows, group.offset[1], n, load_step, orders, words + step);
    const V32 p2 = weigh_pixel<kPairs>(rows, group.offset[2], n, load_step, orders, words + 2 * step);
    const V32 p3 = weigh_pixel<kPairs>(rows, group.offset[3], n, load_step, orders, words + 3 * step);
    return zip_bytes(narrow(p0, p1), narrow(p2, p3));
}

HWY_INLINE V8 weigh_group_any(const std::uint8_t* const* rows, const TapGroup& group, std::size_t load_step,
                              const PairOrders& orders, const std::int32_t* words) {
    switch (group.pairs) {
        case 1:
            return weigh_group<1>(rows, group, load_step, orders, words);
        case 2:
            return weigh_group<2>(rows, group, load_step, orders, words);
        case 3:
            return weigh_group<3>(rows, group, load_step, orders, words);
        case 4:
            return weigh_group<4>(rows, group, load_step, orders, words);
        default:
            return weigh_group<0>(rows, group, load_step, orders, words);
    }
}

void horizontal(const HorizontalJob& job) {
    // What zip_bytes leaves in a block is R0 R2 G0 G2 B0 B2 X0 X2 R1 R3 G1 G3 B1 B3 X1 X3.
    HWY_ALIGN static constexpr std::uint8_t kThree[16] = {0, 2, 4,  8,  10,    12,    1,     3,
                                                          5, 9, 11, 13, kNone, kNone, kNone, kNone};
    HWY_ALIGN static constexpr std::uint8_t kFour[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                         1, 3, 5, 7, 9, 11, 13, 15};
    const D8 d8;
    const V8 pixel_order = hn::LoadDup128(d8, job.out_bytes == 3 ? kThree : kFour);
    const PairOrders orders[2] = {PairOrders(pair_orders(job.pixel_bytes, false)),
                                  PairOrders(pair_orders(job.pixel_bytes, true))};
    const std::size_t load_step = std::size_t{4} * job.pixel_bytes;
    const std::size_t out_step = std::size_t{4} * job.out_bytes;
    for (std::uint32_t y = 0; y < job.rows; y += kBlocks) {
        const std::uint8_t* rows[kBlocks];
        std::uint8_t* out[kBlocks];
        for (std::size_t i = 0; i < kBlocks; ++i) {
            // Blocks beyond the last row make the last row again.
            const std::size_t row = std::min<std::size_t>(y + i, job.rows - 1);
            rows[i] = job.source + row * job.stride;
            out[i] = job.out + row * job.out_stride;
        }
        std::size_t offset = 0;
        for (const TapGroup& group : job.plan->groups) {
            const std::int32_t* words = &job.plan->words[group.words];
            const PairOrders& order = orders[group.at_end ? 1 : 0];
            const V8 bytes = weigh_group_any(rows, group, load_step, order, words);
            store_blocks(hn::TableLookupBytesOr0(bytes, pixel_order), out, offset);
            offset += out_step;
        }
    }
}

#endif  // HWY_TARGET == HWY_SCALAR

void interleave(const std::uint8_t* const rows[4], std::uint32_t width, std::uint8_t* out) {
    std::uint32_t x = 0;
#if HWY_TARGET != HWY_SCALAR
    const D8 d8;
    for (; width - x >= HWY_MAX_BYTES; x += HWY_MAX_BYTES) {
        hn::StoreInterleaved4(hn::LoadU(d8, rows[0] + x), hn::LoadU(d8, rows[1] + x),
                              hn::LoadU(d8, rows[2] + x), hn::LoadU(d8, rows[3] + x), d8,
                              out + std::size_t{4} * x);
    }
#endif
    for (; x < width; ++x) {
        for (std::size_t i = 0; i < 4; ++i)
            out[std::size_t{4} * x + i] = rows[i][x];
    }
}

void split(const std::uint8_t* pixels, std::uint32_t width, std::uint8_t* const rows[4]) {
    std::uint32_t x = 0;
#if HWY_TARGET != HWY_SCALAR
    const D8 d8;
    for (; width - x >= HWY_MAX_BYTES; x += HWY_MAX_BYTES) {
        V8 v0, v1, v2, v3;
        hn::LoadInterleaved4(d8, pixels + std::size_t{4} * x, v0, v1, v2, v3);
        hn::StoreU(v0, d8, rows[0] + x);
        hn::StoreU(v1, d8, rows[1] + x);
        hn::StoreU(v2, d8, rows[2] + x);
        hn::StoreU(v3, d8, rows[3] + x);
    }
#endif
    for (; x < width; ++x) {
        for (std::size_t i = 0; i < 4; ++i)
            rows[i][x] = pixels[std::size_t{4} * x + i];
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sl {

namespace {
HWY_EXPORT(horizontal);
HWY_EXPORT(interleave);
HWY_EXPORT(split);
}  // namespace

void resample_horizontal(const HorizontalJob& job) {
    HWY_DYNAMIC_DISPATCH(horizontal)(job);
}

void interleave_rows(const std::uint8_t* const rows[4], std::uint32_t width, std::uint8_t* out) {
    HWY_DYNAMIC_DISPATCH(interleave)(rows, width, out);
}

void split_rows(const std::uint8_t* pixels, std::uint32_t width, std::uint8_t* const rows[4]) {
    HWY_DYNAMIC_DISPATCH(split)(pixels, width, rows);
}

}  // namespace sl
#endif
