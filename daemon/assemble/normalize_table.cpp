// The tables of the fused pass: all arithmetic of ToTensor and Normalize, done once a stream.
//
// Called when a stream opens; pure, thread-safe, cannot fail. The order and width of the operations are
// torchvision's: one float division by 255, one float subtraction, one float division.
#include <bit>
#include <cmath>

#include "daemon/assemble/collate.h"
#include "daemon/simd/simd_switch.h"

namespace sl {

namespace {

// To nearest, ties to even; beyond the largest half is infinity.
std::uint16_t to_half(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000;
    std::uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and more
    if (magnitude < 0x38800000) {
        // Below 2^-14 halves lie 2^-24 apart, as floats do from 0.5 on: adding 0.5 rounds in the FPU.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return static_cast<std::uint16_t>(sign | (magnitude - 0x38000000) >> 13);
}

// To nearest, ties to even.
std::uint16_t to_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A division as the kernels do it: a product with the reciprocal, then one correction step.
float divide(float numerator, float divisor, float inverse) {
    const float estimate = numerator * inverse;
    return std::fma(std::fma(-estimate, divisor, numerator), inverse, estimate);
}

bool same_bits(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

void make_normalize_table(const Pipeline& pipeline, NormalizeTable& table) {
    simd_allowed();
    table.exact = true;
    for (std::uint32_t c = 0; c < kMaxChannels; ++c) {
        const bool normalizes = pipeline.has_normalize != 0;
        table.mean[c] = normalizes ? pipeline.mean[c] : 0.0F;
        table.std[c] = normalizes ? pipeline.std[c] : 1.0F;
        table.inverse_std[c] = 1.0F / table.std[c];
        for (std::uint32_t v = 0; v < 256; ++v) {
            const float byte = static_cast<float>(v);
            const float value = (byte / 255.0F - table.mean[c]) / table.std[c];
            const float fast = divide(divide(byte, 255.0F, 1.0F / 255.0F) - table.mean[c], table.std[c],
                                      table.inverse_std[c]);
            table.exact = table.exact && std::isfinite(value) && same_bits(value, fast);
            table.f32[c][v] = value;
            table.f16[c][v] = to_half(value);
            table.bf16[c][v] = to_bfloat16(value);
        }
    }
}

std::uint64_t row_bytes(const CollateTarget& target) {
    const std::uint64_t elements = std::uint64_t{target.height} * target.width * target.channels;
    switch (target.dtype) {
        case Dtype::kUint8:
            return elements;
        case Dtype::kFloat16:
        case Dtype::kBfloat16:
            return elements * 2;
        case Dtype::kFloat32:
            return elements * 4;
        case Dtype::kInt64:
        case Dtype::kUint64:
            return elements * 8;
    }
    return 0;
}

}  // namespace sl
