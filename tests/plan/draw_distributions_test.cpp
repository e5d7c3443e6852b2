// Draws are distributed as torchvision's: area uniform, ratio log-uniform, place uniform, flip with p
// (LDR-04).
//
// Pictures here are large, so that rounding to pixels is far below what the tests resolve, and each test
// takes a range from which every first try fits, so that the theory is exact.
#include <cmath>

#include "daemon/plan/draws.h"
#include "tests/plan/pipelines.h"
#include "tests/plan/statistics.h"

namespace sl {
namespace {

constexpr std::uint64_t kDraws = 20000;
constexpr std::uint32_t kSide = 1U << 20;

DrawKey key_of(std::uint64_t id) {
    return {.seed = 99, .epoch = 4, .sample_id = id};
}

// With at most half of the area and these ratios no side exceeds sqrt(0.5 * 4 / 3) = 0.82 of the picture's.
Pipeline half_area() {
    return pipeline_of(R"({"op": "random_resized_crop", "size": 224, "scale": [0.08, 0.5]})");
}

struct Moments {
    double mean = 0;
    double variance = 0;
};

Moments moments(const std::vector<double>& values) {
    Moments m;
    for (const double v : values)
        m.mean += v / static_cast<double>(values.size());
    for (const double v : values)
        m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
    return m;
}

// A uniform variable on [low, high): mean to 5 standard errors, variance to 5 percent, and the whole curve.
void assert_uniform(const std::vector<double>& values, double low, double high) {
    const Moments m = moments(values);
    const double variance = (high - low) * (high - low) / 12;
    assert_true(std::abs(m.mean - (low + high) / 2) <
                5 * std::sqrt(variance / static_cast<double>(values.size())));
    assert_true(std::abs(m.variance / variance - 1) < 0.05);
    assert_true(statistics::kolmogorov(values, low, high) < 2.7);
}

void the_area_is_uniform_and_the_ratio_is_uniform_in_its_logarithm(void**) {
    const Pipeline pipeline = half_area();
    std::vector<double> areas;
    std::vector<double> log_ratios;
    double product = 0;
    for (std::uint64_t id = 0; id < kDraws; ++id) {
        const Box box = resolve_geometry(pipeline, key_of(id), kSide, kSide).box;
        const double w = box.width;
        const double h = box.height;
        areas.push_back(w * h / kSide / kSide);
        log_ratios.push_back(std::log(w / h));
        product += (areas.back() - 0.29) * log_ratios.back() / kDraws;
    }
    assert_uniform(areas, 0.08, 0.5);
    assert_uniform(log_ratios, std::log(0.75), std::log(4.0 / 3.0));
    // Independent: the covariance is 0 to 5 standard errors.
    const double one = 0.42 / std::sqrt(12) * 2 * std::log(4.0 / 3.0) / std::sqrt(12);
    assert_true(std::abs(product) < 5 * one / std::sqrt(kDraws));
}

void the_place_is_uniform_over_all_places_where_the_box_fits(void**) {
    const Pipeline pipeline = half_area();
    std::vector<double> across;
    std::vector<double> down;
    for (std::uint64_t id = 0; id < kDraws; ++id) {
        const Box box = resolve_geometry(pipeline, key_of(id), kSide, kSide).box;
        across.push_back(static_cast<double>(box.x) / (kSide - box.width + 1));
        down.push_back(static_cast<double>(box.y) / (kSide - box.height + 1));
    }
    assert_uniform(across, 0, 1);
    assert_uniform(down, 0, 1);
}

void the_first_and_the_last_place_are_as_likely_as_any(void**) {
    // A whole-height crop of 6 of 8 columns: x is 0, 1 or 2.
    const Pipeline pipeline = pipeline_of(
        R"({"op": "random_resized_crop", "size": 4, "scale": [0.75, 0.75], "ratio": [0.75, 0.75]})");
    std::vector<std::uint64_t> counts(3);
    for (std::uint64_t id = 0; id < kDraws; ++id) {
        const Box box = resolve_geometry(pipeline, key_of(id), 8, 8).box;
        assert_int_equal(box.width, 6);
        assert_int_equal(box.height, 8);
        assert_true(box.x <= 2);
        ++counts[box.x];
    }
    assert_true(statistics::chi_square_excess(counts) < 4.8);
}

void a_flip_has_its_probability_and_is_independent_of_another_slots(void**) {
    const Pipeline pipeline = pipeline_of(R"({"op": "random_horizontal_flip", "p": 0.3})");
    Pipeline other = pipeline;
    other.ops[1].slot = 2;
    double flips = 0;
    double both = 0;
    for (std::uint64_t id = 0; id < kDraws; ++id) {
        const bool a = resolve_geometry(pipeline, key_of(id), 8, 8).flip;
        const bool b = resolve_geometry(other, key_of(id), 8, 8).flip;
        flips += a;
        both += a && b;
    }
    assert_true(std::abs(flips / kDraws - 0.3) < 5 * std::sqrt(0.3 * 0.7 / kDraws));
    assert_true(std::abs(both / kDraws - 0.09) < 5 * std::sqrt(0.09 * 0.91 / kDraws));
}

void the_predicted_area_is_the_drawn_one_when_the_first_try_fits(void**) {
    const Pipeline pipeline = half_area();
    for (std::uint64_t id = 0; id < 1000; ++id) {
        const Box box = resolve_geometry(pipeline, key_of(id), kSide, kSide).box;
        const double drawn = static_cast<double>(box.width) * box.height / kSide / kSide;
        assert_true(std::abs(expected_area_fraction(pipeline, key_of(id)) - drawn) < 1e-5);
    }
}

void the_predicted_area_is_the_whole_without_a_random_crop(void**) {
    const Pipeline pipeline = pipeline_of(R"({"op": "resize", "size": [8, 8]})");
    assert_true(expected_area_fraction(pipeline, key_of(0)) == 1.0);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_area_is_uniform_and_the_ratio_is_uniform_in_its_logarithm),
        cmocka_unit_test(the_place_is_uniform_over_all_places_where_the_box_fits),
        cmocka_unit_test(the_first_and_the_last_place_are_as_likely_as_any),
        cmocka_unit_test(a_flip_has_its_probability_and_is_independent_of_another_slots),
        cmocka_unit_test(the_predicted_area_is_the_drawn_one_when_the_first_try_fits),
        cmocka_unit_test(the_predicted_area_is_the_whole_without_a_random_crop),
    };
    return cmocka_run_group_tests_name("draw distributions", tests, nullptr, nullptr);
}
