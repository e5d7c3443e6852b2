// The resize of profile `fast`: right bytes in the right places; its exact values are libyuv's own affair.
#include "daemon/worker/transform/fast_scale.h"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

// Last: its macro `fail` would break the headers above.
extern "C" {
#include <cmocka.h>
}

namespace {

using Bytes = std::vector<std::uint8_t>;

// Red grows to the right, green grows downwards, blue is 200; RGBX.
Bytes ramps(std::uint32_t width, std::uint32_t height) {
    Bytes pixels;
    for (std::uint32_t y = 0; y < height; ++y) {
        for (std::uint32_t x = 0; x < width; ++x) {
            pixels.push_back(static_cast<std::uint8_t>(x * 255 / (width - 1)));
            pixels.push_back(static_cast<std::uint8_t>(y * 255 / (height - 1)));
            pixels.push_back(200);
            pixels.push_back(17);
        }
    }
    return pixels;
}

Bytes scale(const Bytes& pixels, std::uint32_t width, std::uint32_t height, std::uint32_t side, bool flip,
            sl::PixelOrder order) {
    sl::FastScaler scaler;
    Bytes out(std::size_t{side} * side * 3 + 16, 0xa5);
    const sl::ImageView view{pixels.data(), width, height, 4, std::size_t{width} * 4};
    assert_true(scaler.scale(view, order, side, side, flip, out.data()).has_value());
    for (std::size_t i = 0; i < 16; ++i)
        assert_int_equal(out[out.size() - 16 + i], 0xa5);
    return {out.begin(), out.end() - 16};
}

void ramps_stay_ramps_up_and_down(void**) {
    for (const std::uint32_t side : {37u, 224u, 300u}) {
        const Bytes out = scale(ramps(200, 150), 200, 150, side, false, sl::PixelOrder::kRgbx);
        for (std::uint32_t y = 0; y < side; ++y) {
            for (std::uint32_t x = 0; x < side; ++x) {
                const std::uint8_t* pixel = &out[(std::size_t{y} * side + x) * 3];
                assert_true(std::abs(pixel[0] - static_cast<int>(x * 255 / (side - 1))) <= 12);
                assert_true(std::abs(pixel[1] - static_cast<int>(y * 255 / (side - 1))) <= 12);
                assert_true(std::abs(pixel[2] - 200) <= 2);  // libyuv weighs with 7 bits
            }
        }
    }
}

void flip_mirrors_every_row(void**) {
    const std::uint32_t side = 101;
    const Bytes pixels = ramps(180, 90);
    const Bytes plain = scale(pixels, 180, 90, side, false, sl::PixelOrder::kRgbx);
    const Bytes flipped = scale(pixels, 180, 90, side, true, sl::PixelOrder::kRgbx);
    for (std::size_t i = 0; i < plain.size(); ++i) {
        const std::size_t pixel = i / 3;
        const std::size_t mirrored = pixel / side * side + (side - 1 - pixel % side);
        assert_int_equal(flipped[i], plain[mirrored * 3 + i % 3]);
    }
}

void both_pixel_orders_give_red_first(void**) {
    const Bytes rgbx = ramps(120, 80);
    Bytes bgrx = rgbx;
    for (std::size_t i = 0; i < bgrx.size(); i += 4)
        std::swap(bgrx[i], bgrx[i + 2]);
    const Bytes from_rgbx = scale(rgbx, 120, 80, 64, false, sl::PixelOrder::kRgbx);
    const Bytes from_bgrx = scale(bgrx, 120, 80, 64, false, sl::PixelOrder::kBgrx);
    assert_memory_equal(from_rgbx.data(), from_bgrx.data(), from_rgbx.size());
}

void a_picture_of_three_bytes_a_pixel_is_refused(void**) {
    sl::FastScaler scaler;
    std::uint8_t pixel[4] = {};
    const auto result = scaler.scale({pixel, 1, 1, 3, 3}, sl::PixelOrder::kRgbx, 1, 1, false, pixel);
    assert_false(result.has_value());
    assert_int_equal(result.error().kind, sl::SampleErrorKind::kShapeMismatch);
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(ramps_stay_ramps_up_and_down),
        cmocka_unit_test(flip_mirrors_every_row),
        cmocka_unit_test(both_pixel_orders_give_red_first),
        cmocka_unit_test(a_picture_of_three_bytes_a_pixel_is_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
