// The fused pass: one uint8 HWC sample becomes one row of a batch tensor, in the asked dtype and layout.
//
// Called by assembler threads only. Pure functions over memory that the caller owns; thread-safe. SIMD by
// Highway's run-time dispatch; every level gives the same bytes (tests/promises hold that). Normalising is a
// table: (v / 255 - mean) / std for each of the 256 values of each channel, computed once in float, so that
// every back end, present or future, agrees bit for bit.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/plan/pipeline.h"

namespace sl {

struct NormalizeTable {
    // f32[c][v] = ((float)v / 255 - mean[c]) / std[c] with has_normalize, else (float)v / 255 as
    // torchvision's ToTensor; f16/bf16 are the same values rounded to nearest even.
    std::array<std::array<float, 256>, kMaxChannels> f32;
    std::array<std::array<std::uint16_t, 256>, kMaxChannels> f16;
    std::array<std::array<std::uint16_t, 256>, kMaxChannels> bf16;
    // The same arithmetic for SIMD. `exact` says that the kernels' division (a reciprocal and one correction
    // step) was tried on all 256 values of all channels and gave f32 to the bit; else they look values up.
    std::array<float, kMaxChannels> mean;
    std::array<float, kMaxChannels> std;
    std::array<float, kMaxChannels> inverse_std;
    bool exact;
};

// Fills the tables from a pipeline's mean and std. A std of 0 gives infinities and NaN, as the division does.
void make_normalize_table(const Pipeline& pipeline, NormalizeTable& table);

struct CollateTarget {
    void* row = nullptr;                                // first byte of this sample's row in the batch tensor
    std::uint32_t height = 0, width = 0, channels = 0;  // channels: 1 to kMaxChannels
    Dtype dtype = Dtype::kFloat32;
    Layout layout = Layout::kNchw;
};

// Writes exactly height * width * channels elements at target.row from packed HWC bytes. `row` needs only the
// element's own alignment. uint8 is the sample's bytes, not normalised. Large rows are written past the
// cache, since nobody reads them on this core; they are visible to other cores before this returns. The
// integer dtypes are for labels: such a target is left as it is.
void collate_row(const std::uint8_t* sample, const NormalizeTable& table, const CollateTarget& target);

// Bytes of one row.
std::uint64_t row_bytes(const CollateTarget& target);

}  // namespace sl
