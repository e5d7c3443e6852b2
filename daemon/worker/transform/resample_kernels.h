// The two passes of a resize, in SIMD: Resampler's inner loops.
//
// Called by Resampler only. Pure functions over memory that the caller owns; thread-safe. Highway picks the
// best instructions of the machine at run time; every level, the scalar one included, writes the same bytes,
// because all sums are exact. Nothing here allocates or can fail: the caller has checked every bound.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/worker/transform/taps.h"

namespace sl {

// Rows of pixels -> rows of resized pixels.
struct HorizontalJob {
    const std::uint8_t* source = nullptr;
    std::size_t stride = 0;  // bytes between source rows
    std::uint32_t rows = 0;
    std::uint32_t pixel_bytes = 0;  // of the source: 3 or 4
    std::uint8_t* out = nullptr;    // each row may be written 16 bytes beyond its end, and must own them
    std::size_t out_stride = 0;
    std::uint32_t out_bytes = 0;  // of an output pixel: 3 or 4, at most pixel_bytes
    bool flip = false;
    const AxisTaps* taps = nullptr;
    const RowPlan* plan = nullptr;  // of `taps`, with the same pixel_bytes and flip
};
void resample_horizontal(const HorizontalJob& job);

// Columns of bytes -> columns of resized bytes.
struct VerticalJob {
    const std::uint8_t* source = nullptr;  // row `first_row` of the axis
    std::size_t stride = 0;
    std::uint32_t first_row = 0;
    std::size_t row_bytes = 0;    // bytes in a row, of the source and of the output
    std::uint8_t* out = nullptr;  // taps->out rows without padding; not one byte more is written
    const AxisTaps* taps = nullptr;
};
void resample_vertical(const VerticalJob& job);

// Four rows of `width` bytes -> one row of 4-byte pixels, and back. With it one-channel pictures take the
// horizontal pass four rows at a time.
void interleave_rows(const std::uint8_t* const rows[4], std::uint32_t width, std::uint8_t* out);
void split_rows(const std::uint8_t* pixels, std::uint32_t width, std::uint8_t* const rows[4]);

}  // namespace sl
