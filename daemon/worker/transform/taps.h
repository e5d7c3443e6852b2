// Which source pixels make an output pixel along one axis, and with what weights: Pillow's triangle filter.
//
// Called by Resampler. Pure functions over the caller's tables, which keep their memory between calls; tables
// are not shared between threads. They throw std::bad_alloc and nothing else (Resampler turns it into a
// value).
//
// Source of the algorithm: Pillow's precompute_coeffs and normalize_coeffs_8bpc (src/libImaging/Resample.c).
// The order of the floating point operations is theirs, because the weights must be theirs to the last bit.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace sl {

// Weights have 22 fractional bits: 8 bits of pixel and 2 of head room fill a 32-bit sum.
inline constexpr int kWeightBits = 22;
// A weight is high << 11 | low, so that a product with a byte fits 16-bit multiply-add.
inline constexpr int kHalfBits = 11;

struct AxisTaps {
    std::uint32_t in = 0, out = 0;      // sizes of the axis before and after
    std::uint32_t stride = 0;           // weights kept for each output position
    std::vector<std::uint32_t> first;   // [out] first source position with a weight other than 0
    std::vector<std::uint32_t> count;   // [out] source positions from there on, at least 1
    std::vector<std::int32_t> weights;  // [out][stride] fixed point
};

// Fills `taps` for an axis of `in` positions resized to `out`; both at least 1.
void compute_taps(std::uint32_t in, std::uint32_t out, AxisTaps& taps);

// The same weights laid out for the horizontal SIMD pass: it makes four neighbouring output pixels at a time,
// from 16-byte loads that hold four source pixels each, multiplied as two pairs.
struct TapGroup {
    std::array<std::uint32_t, 4>
        offset;               // byte of the source row where each output pixel's first load starts
    std::uint32_t pairs = 0;  // for each output pixel; an odd last one leaves half a load unused
    std::uint32_t words = 0;  // index of the group's first word in RowPlan::words
    // The pixels end with the load's last byte instead of starting with its first: what keeps the last pixels
    // of a row from being read beyond the row.
    bool at_end = false;
};

struct RowPlan {
    std::vector<TapGroup> groups;  // ceil(out / 4); positions past the last repeat it
    // For each group, output pixel and pair: the high halves, then the low halves. A word holds the 16-bit
    // weights of a pair's two source pixels, the left one's below.
    std::vector<std::int32_t> words;
};

struct RowShape {
    std::uint32_t pixel_bytes = 0;      // 3 or 4
    std::uint32_t readable_pixels = 0;  // a row may be read up to here; at least AxisTaps::in
    bool flip = false;                  // make the output from right to left
};

// Pixels by which a row must be readable beyond its width so that build_row_plan cannot return false.
inline constexpr std::uint32_t kPaddingPixels = 8;

// Lays `taps` out. False where the row is too narrow for a 16-byte load near one of its ends: then the caller
// pads the rows.
bool build_row_plan(const AxisTaps& taps, const RowShape& shape, RowPlan& plan);

}  // namespace sl
