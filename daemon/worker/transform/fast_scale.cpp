#include "daemon/worker/transform/fast_scale.h"

#include <libyuv.h>

#include <cstddef>
#include <new>

#include "daemon/simd/simd_switch.h"

namespace sl {

namespace {

constexpr std::uint32_t kMaxSide = 32768;  // libyuv's steps are 16.16 fixed point

bool fits(std::uint32_t width, std::uint32_t height) {
    return width > 0 && height > 0 && width < kMaxSide && height < kMaxSide;
}

}  // namespace

void drop_fourth_byte(const ImageView& source, PixelOrder order, std::uint8_t* out) {
    // libyuv names pixels by their value in a little-endian register: its ARGB lies in memory as B G R A.
    const auto convert = order == PixelOrder::kBgrx ? libyuv::ARGBToRAW : libyuv::ARGBToRGB24;
    convert(source.data, static_cast<int>(source.stride), out, static_cast<int>(source.width * 3),
            static_cast<int>(source.width), static_cast<int>(source.height));
}

FastScaler::FastScaler() {
    if (!simd_allowed()) libyuv::MaskCpuFlags(libyuv::kCpuInitialized);
}

SampleResult<void> FastScaler::scale(const ImageView& source, PixelOrder order, std::uint32_t out_width,
                                     std::uint32_t out_height, bool flip, std::uint8_t* out) {
    if (source.channels != 4 || !fits(source.width, source.height) || !fits(out_width, out_height)) {
        return fail_sample(SampleErrorKind::kShapeMismatch,
                           "the fast resize needs 4-byte pixels and sides from 1 to 32767");
    }
    const int stride = static_cast<int>(out_width) * 4;
    const int width = static_cast<int>(out_width);
    const int height = static_cast<int>(out_height);
    const std::size_t bytes = std::size_t{out_width} * out_height * 4;
    try {
        if (scaled_.size() < bytes) scaled_.resize(bytes);
        if (flip && mirrored_.size() < bytes) mirrored_.resize(bytes);
    } catch (const std::bad_alloc&) {
        return fail_sample(SampleErrorKind::kByteBudget, "no memory for the resize");
    }
    const bool shrinks = out_width < source.width || out_height < source.height;
    if (libyuv::ARGBScale(source.data, static_cast<int>(source.stride), static_cast<int>(source.width),
                          static_cast<int>(source.height), scaled_.data(), stride, width, height,
                          shrinks ? libyuv::kFilterBox : libyuv::kFilterBilinear) != 0) {
        return fail_sample(SampleErrorKind::kShapeMismatch, "libyuv refused the resize");
    }
    if (flip) libyuv::ARGBMirror(scaled_.data(), stride, mirrored_.data(), stride, width, height);
    const std::uint8_t* pixels = flip ? mirrored_.data() : scaled_.data();
    drop_fourth_byte({pixels, out_width, out_height, 4, static_cast<std::size_t>(stride)}, order, out);
    return {};
}

}  // namespace sl
