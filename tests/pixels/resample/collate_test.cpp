// The fused pass: every SIMD level writes the table's values, all of them and nothing else.
#include "daemon/assemble/collate.h"

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

// Last: its macro `fail` would break the headers above.
extern "C" {
#include <cmocka.h>
}

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kGuard = 0xa5;
constexpr std::size_t kGuardBytes = 256;
constexpr sl::Dtype kDtypes[] = {sl::Dtype::kFloat32, sl::Dtype::kFloat16, sl::Dtype::kBfloat16,
                                 sl::Dtype::kUint8};

sl::Pipeline imagenet() {
    sl::Pipeline pipeline;
    pipeline.has_normalize = 1;
    const float mean[] = {0.485F, 0.456F, 0.406F, 0.5F};
    const float std[] = {0.229F, 0.224F, 0.225F, 0.25F};
    std::memcpy(pipeline.mean, mean, sizeof mean);
    std::memcpy(pipeline.std, std, sizeof std);
    return pipeline;
}

// Every channel takes every value within 256 pixels.
Bytes all_values(std::size_t pixels, std::uint32_t channels) {
    Bytes sample(pixels * channels);
    for (std::size_t i = 0; i < sample.size(); ++i) {
        sample[i] = static_cast<std::uint8_t>(i / channels * 7 + i % channels * 85);
    }
    return sample;
}

// What collate_row must write, element by element from the table.
Bytes expected_row(const Bytes& sample, const sl::NormalizeTable& table, const sl::CollateTarget& target) {
    const std::size_t pixels = std::size_t{target.height} * target.width;
    const std::size_t element = sl::row_bytes(target) / sample.size();
    Bytes row(sl::row_bytes(target));
    for (std::size_t i = 0; i < sample.size(); ++i) {
        const std::size_t pixel = i / target.channels;
        const std::size_t channel = i % target.channels;
        const std::size_t place = target.layout == sl::Layout::kNhwc ? i : channel * pixels + pixel;
        const void* value = &sample[i];
        if (target.dtype == sl::Dtype::kFloat32) value = &table.f32[channel][sample[i]];
        if (target.dtype == sl::Dtype::kFloat16) value = &table.f16[channel][sample[i]];
        if (target.dtype == sl::Dtype::kBfloat16) value = &table.bf16[channel][sample[i]];
        std::memcpy(&row[place * element], value, element);
    }
    return row;
}

// Collates at `shift` elements from a 64-byte boundary; checks the row and the bytes around it.
void check_row(const Bytes& sample, const sl::NormalizeTable& table, sl::CollateTarget target,
               std::size_t shift) {
    const Bytes expected = expected_row(sample, table, target);
    const std::size_t element = expected.size() / sample.size();
    Bytes memory(expected.size() + 2 * kGuardBytes, kGuard);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    const std::size_t start = 64 - address % 64 + shift * element;
    target.row = memory.data() + start;
    sl::collate_row(sample.data(), table, target);
    assert_memory_equal(target.row, expected.data(), expected.size());
    for (std::size_t i = 0; i < memory.size(); ++i) {
        if (i < start || i >= start + expected.size()) assert_int_equal(memory[i], kGuard);
    }
}

template <class Check>
void at_every_simd_level(Check check) {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        check();
    }
    hwy::SetSupportedTargetsForTest(0);
}

void check_all(const sl::NormalizeTable& table, std::uint32_t height, std::uint32_t width) {
    for (const std::uint32_t channels : {1, 2, 3, 4}) {
        const Bytes sample = all_values(std::size_t{height} * width, channels);
        for (const sl::Dtype dtype : kDtypes) {
            for (const sl::Layout layout : {sl::Layout::kNchw, sl::Layout::kNhwc}) {
                for (const std::size_t shift : {0, 1, 5}) {
                    check_row(sample, table, {nullptr, height, width, channels, dtype, layout}, shift);
                }
            }
        }
    }
}

void every_value_of_every_channel_is_the_tables(void**) {
    sl::NormalizeTable table;
    sl::make_normalize_table(imagenet(), table);
    assert_true(table.exact);
    at_every_simd_level([&] { check_all(table, 16, 32); });
}

void odd_sizes_are_written_to_the_last_element_and_no_further(void**) {
    sl::NormalizeTable table;
    sl::make_normalize_table(imagenet(), table);
    at_every_simd_level([&] {
        for (const auto& [height, width] :
             {std::pair{1u, 1u}, {1u, 3u}, {1u, 15u}, {1u, 17u}, {7u, 9u}, {31u, 43u}}) {
            check_all(table, height, width);
        }
    });
}

void large_rows_written_past_the_cache_are_the_tables_too(void**) {
    sl::NormalizeTable table;
    sl::make_normalize_table(imagenet(), table);
    at_every_simd_level([&] {
        check_all(table, 224, 224);
        check_all(table, 225, 223);
    });
}

void without_normalize_the_values_are_shares_of_255(void**) {
    sl::Pipeline pipeline = imagenet();
    pipeline.has_normalize = 0;
    sl::NormalizeTable table;
    sl::make_normalize_table(pipeline, table);
    for (int v = 0; v < 256; ++v)
        assert_true(table.f32[1][v] == static_cast<float>(v) / 255.0F);
    at_every_simd_level([&] { check_all(table, 16, 17); });
}

void any_mean_and_std_give_the_tables_values(void**) {
    std::mt19937 generator(4);
    std::uniform_real_distribution<float> means(-2.0F, 2.0F);
    std::uniform_real_distribution<float> exponents(-12.0F, 12.0F);
    for (int i = 0; i < 20; ++i) {
        sl::Pipeline pipeline = imagenet();
        for (float& mean : pipeline.mean)
            mean = means(generator);
        for (float& std : pipeline.std)
            std = std::exp2(exponents(generator));
        sl::NormalizeTable table;
        sl::make_normalize_table(pipeline, table);
        at_every_simd_level([&] { check_all(table, 16, 17); });
    }
}

void a_std_that_division_cannot_take_still_gives_the_tables_values(void**) {
    for (const float std : {0.0F, 1e-45F}) {
        sl::Pipeline pipeline = imagenet();
        pipeline.std[1] = std;
        sl::NormalizeTable table;
        sl::make_normalize_table(pipeline, table);
        assert_false(table.exact);
        at_every_simd_level([&] { check_all(table, 16, 17); });
    }
}

double half_value(std::uint32_t half) {
    const int exponent = static_cast<int>(half >> 10 & 31);
    const double fraction = half & 1023;
    return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

void half_floats_are_the_nearest_ones(void**) {
    sl::Pipeline pipeline = imagenet();
    pipeline.std[1] = 4096.0F;    // values below the smallest normal half
    pipeline.std[2] = 0.000012F;  // values up to beyond the largest half
    sl::NormalizeTable table;
    sl::make_normalize_table(pipeline, table);
    for (int c = 0; c < 3; ++c) {
        for (int v = 0; v < 256; ++v) {
            const double value = table.f32[c][v];
            const std::uint32_t half = table.f16[c][v];
            assert_int_equal(half >> 15, std::signbit(value) ? 1 : 0);
            const std::uint32_t magnitude = half & 0x7fff;
            if (magnitude == 0x7c00) {
                assert_true(std::fabs(value) >= 65520);
                continue;
            }
            assert_true(magnitude < 0x7c00 && std::fabs(value) < 65520);
            const double error = std::fabs(half_value(magnitude) - std::fabs(value));
            for (const std::uint32_t other : {magnitude - 1, magnitude + 1}) {
                if (other > 0x7c00) continue;  // below zero
                const double other_error = std::fabs(half_value(other) - std::fabs(value));
                assert_true(error < other_error || (error == other_error && magnitude % 2 == 0));
            }
        }
    }
}

void brain_floats_are_the_nearest_ones(void**) {
    sl::NormalizeTable table;
    sl::make_normalize_table(imagenet(), table);
    const auto widen = [](std::uint32_t half) { return double{std::bit_cast<float>(half << 16)}; };
    for (int c = 0; c < 3; ++c) {
        for (int v = 0; v < 256; ++v) {
            const std::uint32_t brain = table.bf16[c][v];
            const double error = std::fabs(widen(brain) - double{table.f32[c][v]});
            assert_true(error <= std::fabs(widen(brain + 1) - double{table.f32[c][v]}));
            assert_true(error <= std::fabs(widen(brain - 1) - double{table.f32[c][v]}));
        }
    }
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_value_of_every_channel_is_the_tables),
        cmocka_unit_test(odd_sizes_are_written_to_the_last_element_and_no_further),
        cmocka_unit_test(large_rows_written_past_the_cache_are_the_tables_too),
        cmocka_unit_test(without_normalize_the_values_are_shares_of_255),
        cmocka_unit_test(any_mean_and_std_give_the_tables_values),
        cmocka_unit_test(a_std_that_division_cannot_take_still_gives_the_tables_values),
        cmocka_unit_test(half_floats_are_the_nearest_ones),
        cmocka_unit_test(brain_floats_are_the_nearest_ones),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
