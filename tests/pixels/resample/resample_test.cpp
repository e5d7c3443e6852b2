// The exact resize: every SIMD level writes the same bytes, inside its bounds. That the bytes are Pillow's is
// for test_pillow_resize.py to say.
#include "daemon/worker/transform/resample.h"

#include <hwy/highway.h>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// Last: its macro `fail` would break the headers above.
extern "C" {
#include <cmocka.h>
}

namespace {

constexpr std::uint8_t kGuard = 0xa5;
constexpr std::size_t kGuardBytes = 64;

struct Shape {
    std::uint32_t width, height, channels, out_width, out_height;
    bool flip;
};

using Bytes = std::vector<std::uint8_t>;

std::uint32_t out_channels(std::uint32_t channels) {
    return channels == 1 ? 1 : 3;
}

Bytes noise(std::size_t size, std::uint32_t seed) {
    std::mt19937 generator(seed);
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes)
        byte = static_cast<std::uint8_t>(generator());
    return bytes;
}

// Resizes packed rows and checks that nothing around the output was written.
Bytes resize(sl::Resampler& resampler, const Bytes& picture, const Shape& shape) {
    const std::size_t stride = std::size_t{shape.width} * shape.channels;
    const sl::ImageView view{picture.data(), shape.width, shape.height, shape.channels, stride};
    const std::size_t size = std::size_t{shape.out_width} * shape.out_height * out_channels(shape.channels);
    Bytes out(size + 2 * kGuardBytes, kGuard);
    const auto result =
        resampler.bilinear(view, shape.out_width, shape.out_height, shape.flip, out.data() + kGuardBytes);
    assert_true(result.has_value());
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
        assert_int_equal(out[i], kGuard);
        assert_int_equal(out[kGuardBytes + size + i], kGuard);
    }
    return {out.begin() + kGuardBytes, out.end() - kGuardBytes};
}

Bytes mirror(const Bytes& rows, std::uint32_t width, std::uint32_t channels) {
    Bytes out(rows.size());
    const std::size_t stride = std::size_t{width} * channels;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t x = i % stride / channels;
        out[i / stride * stride + (width - 1 - x) * channels + i % channels] = rows[i];
    }
    return out;
}

std::vector<Shape> shapes() {
    std::vector<Shape> all;
    for (const std::uint32_t channels : {1, 3, 4}) {
        for (const auto& [width, height] :
             {std::pair{1u, 1u}, {1u, 33u}, {33u, 1u}, {2u, 3u}, {5u, 4u}, {7u, 2u}, {6u, 6u}}) {
            all.push_back({width, height, channels, 1, 1, false});
            all.push_back({width, height, channels, 19, 1, true});
            all.push_back({width, height, channels, 1, 19, false});
            all.push_back({width, height, channels, 66, 35, true});
            all.push_back({width, height, channels, width, height + 3, true});
            all.push_back({width, height, channels, width + 3, height, false});
            all.push_back({width, height, channels, width, height, true});
        }
        all.push_back({250, 190, channels, 224, 224, false});
        all.push_back({350, 260, channels, 224, 224, true});
        all.push_back({97, 131, channels, 224, 224, false});
        all.push_back({700, 500, channels, 31, 23, true});
    }
    std::mt19937 generator(15);
    const auto side = [&] { return static_cast<std::uint32_t>(generator() % 150 + 1); };
    for (int i = 0; i < 200; ++i) {
        const std::uint32_t channels[] = {1, 3, 4};
        all.push_back({side(), side(), channels[i % 3], side(), side(), i % 2 == 0});
    }
    return all;
}

void every_simd_level_resizes_to_the_same_bytes(void**) {
    std::vector<Bytes> expected;
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        sl::Resampler resampler;
        std::uint32_t seed = 0;
        for (const Shape& shape : shapes()) {
            const Bytes picture = noise(std::size_t{shape.width} * shape.height * shape.channels, seed);
            Bytes out = resize(resampler, picture, shape);
            if (seed == expected.size()) {
                expected.push_back(std::move(out));
            } else {
                assert_memory_equal(out.data(), expected[seed].data(), out.size());
            }
            ++seed;
        }
        hwy::SetSupportedTargetsForTest(0);
    }
    assert_int_equal(expected.size(), shapes().size());
}

void a_flipped_resize_is_the_mirror_of_the_resize(void**) {
    sl::Resampler resampler;
    for (Shape shape : shapes()) {
        const Bytes picture = noise(std::size_t{shape.width} * shape.height * shape.channels, 7);
        shape.flip = false;
        const Bytes plain = resize(resampler, picture, shape);
        shape.flip = true;
        const Bytes flipped = resize(resampler, picture, shape);
        const Bytes mirrored = mirror(plain, shape.out_width, out_channels(shape.channels));
        assert_memory_equal(flipped.data(), mirrored.data(), flipped.size());
    }
}

void flipping_twice_gives_the_picture_back(void**) {
    sl::Resampler resampler;
    for (const std::uint32_t channels : {1, 3}) {
        const Shape shape{45, 31, channels, 45, 31, true};
        const Bytes picture = noise(std::size_t{45} * 31 * channels, 8);
        const Bytes twice = resize(resampler, resize(resampler, picture, shape), shape);
        assert_memory_equal(twice.data(), picture.data(), picture.size());
    }
}

void one_colour_stays_that_colour_at_every_scale(void**) {
    sl::Resampler resampler;
    for (const int value : {0, 1, 127, 254, 255}) {
        for (const Shape& shape : shapes()) {
            const Bytes picture(std::size_t{shape.width} * shape.height * shape.channels,
                                static_cast<std::uint8_t>(value));
            for (const std::uint8_t byte : resize(resampler, picture, shape))
                assert_int_equal(byte, value);
        }
    }
}

void the_fourth_byte_of_a_pixel_changes_nothing(void**) {
    sl::Resampler resampler;
    for (Shape shape : shapes()) {
        shape.channels = 3;
        const Bytes colours = noise(std::size_t{shape.width} * shape.height * 3, 9);
        Bytes padded;
        for (std::size_t i = 0; i < colours.size(); ++i) {
            padded.push_back(colours[i]);
            if (i % 3 == 2) padded.push_back(static_cast<std::uint8_t>(i));
        }
        const Bytes from_three = resize(resampler, colours, shape);
        shape.channels = 4;
        const Bytes from_four = resize(resampler, padded, shape);
        assert_memory_equal(from_three.data(), from_four.data(), from_three.size());
    }
}

void a_region_of_a_larger_picture_resizes_as_its_own_copy(void**) {
    sl::Resampler resampler;
    const Bytes large = noise(std::size_t{300} * 200 * 3, 10);
    const std::size_t stride = 300 * 3;
    Bytes copy;
    for (std::size_t y = 20; y < 150; ++y) {
        const auto row = large.begin() + static_cast<std::ptrdiff_t>(y * stride + 33 * 3);
        copy.insert(copy.end(), row, row + 201 * 3);
    }
    const Bytes expected = resize(resampler, copy, {201, 130, 3, 224, 96, false});
    Bytes out(expected.size());
    const sl::ImageView view{large.data() + 20 * stride + 33 * 3, 201, 130, 3, stride};
    assert_true(resampler.bilinear(view, 224, 96, false, out.data()).has_value());
    assert_memory_equal(out.data(), expected.data(), out.size());
}

void a_picture_without_pixels_is_refused(void**) {
    sl::Resampler resampler;
    std::uint8_t pixel[4] = {};
    for (const sl::ImageView& view : {sl::ImageView{pixel, 0, 1, 3, 3}, sl::ImageView{pixel, 1, 0, 3, 3},
                                      sl::ImageView{pixel, 1, 1, 2, 2}}) {
        const auto result = resampler.bilinear(view, 1, 1, false, pixel);
        assert_false(result.has_value());
        assert_int_equal(result.error().kind, sl::SampleErrorKind::kShapeMismatch);
    }
    assert_false(resampler.bilinear({pixel, 1, 1, 3, 3}, 0, 1, false, pixel).has_value());
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_simd_level_resizes_to_the_same_bytes),
        cmocka_unit_test(a_flipped_resize_is_the_mirror_of_the_resize),
        cmocka_unit_test(flipping_twice_gives_the_picture_back),
        cmocka_unit_test(one_colour_stays_that_colour_at_every_scale),
        cmocka_unit_test(the_fourth_byte_of_a_pixel_changes_nothing),
        cmocka_unit_test(a_region_of_a_larger_picture_resizes_as_its_own_copy),
        cmocka_unit_test(a_picture_without_pixels_is_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
