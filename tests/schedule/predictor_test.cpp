// The predictor: learns what a sample costs from what it did cost, keeps progressive JPEGs apart, and takes
// its lanes from the live distribution.
#include "daemon/predict/predictor.h"

#include <cmath>
#include <random>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint32_t kJpeg = 1;
constexpr std::uint32_t kPng = 2;

Pipeline resize_only() {
    Pipeline pipeline;
    pipeline.ops[0].kind = OpKind::kDecode;
    pipeline.ops[1].kind = OpKind::kResize;
    pipeline.ops[1].height = pipeline.ops[1].width = 224;
    pipeline.op_count = 2;
    pipeline.height = pipeline.width = 224;
    return pipeline;
}

// Pictures of 20 KB to 2 MB that cost a fixed part and a part per byte, with five per cent of noise.
class Pictures {
  public:
    explicit Pictures(std::uint32_t seed, std::uint64_t first_id = 0) : random_(seed), next_id_(first_id) {}

    struct Picture {
        DrawKey key;
        std::uint64_t bytes;
    };
    Picture next() {
        std::uniform_real_distribution<double> exponent(std::log(20e3), std::log(2e6));
        return {{1, 0, next_id_++}, static_cast<std::uint64_t>(std::exp(exponent(random_)))};
    }
    double noise() { return 1 + 0.05 * std::normal_distribution<double>()(random_); }

  private:
    std::mt19937 random_;
    std::uint64_t next_id_;
};

double cost_of(std::uint64_t bytes) {
    return 400e3 + 11.0 * static_cast<double>(bytes);
}

Observed seen_at(std::uint64_t bytes, double cost, std::uint32_t format = kJpeg, bool progressive = false) {
    const auto side = static_cast<std::uint32_t>(std::sqrt(6.0 * static_cast<double>(bytes)));
    return {format, side, side, progressive, cost};
}

void train(Predictor& predictor, Pictures& pictures, int count, double factor = 1, bool progressive = false) {
    for (int i = 0; i < count; ++i) {
        const auto picture = pictures.next();
        const double cost = factor * cost_of(picture.bytes) * pictures.noise();
        predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, cost, kJpeg, progressive));
    }
}

// Over pictures never seen before, by their size in bytes alone.
double error_on_new_pictures(Predictor& predictor, std::uint32_t format = kJpeg) {
    Pictures fresh(77, 1'000'000);
    double sum = 0;
    for (int i = 0; i < 1000; ++i) {
        const auto picture = fresh.next();
        const double cost = cost_of(picture.bytes);
        sum += std::abs(predictor.predict(picture.key, picture.bytes, format).cost_ns - cost) / cost;
    }
    return sum / 1000;
}

void it_learns_a_fixed_part_and_a_part_per_byte_within_ten_per_cent(void**) {
    Predictor predictor(resize_only());
    Pictures pictures(1);
    const double before = error_on_new_pictures(predictor);
    train(predictor, pictures, 1000);
    const double after = error_on_new_pictures(predictor);
    assert_true(before > 0.15);  // else there was nothing to learn
    assert_true(after < 0.10);
}

void what_one_format_costs_says_nothing_about_another(void**) {
    Predictor predictor(resize_only());
    Pictures pictures(2);
    const double before = predictor.predict({1, 0, 5'000'000}, 500'000, kPng).cost_ns;
    train(predictor, pictures, 1000, 5);
    assert_true(predictor.predict({1, 0, 5'000'000}, 500'000, kPng).cost_ns == before);
}

void progressive_pictures_are_learned_apart_and_do_not_bend_the_others(void**) {
    Predictor predictor(resize_only());
    Pictures pictures(3);
    for (int i = 0; i < 1000; ++i) {
        train(predictor, pictures, 1);
        train(predictor, pictures, 1, 6, true);
    }
    assert_true(error_on_new_pictures(predictor) < 0.10);
    // The last one trained was progressive and has been seen: its own model predicts it.
    Pictures known(4, 9'000'000);
    double sum = 0;
    for (int i = 0; i < 200; ++i) {
        const auto picture = known.next();
        const double cost = 6 * cost_of(picture.bytes);
        predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, cost, kJpeg, true));
        const DrawKey next_epoch{1, 1, picture.key.sample_id};
        sum += std::abs(predictor.predict(next_epoch, picture.bytes, kJpeg).cost_ns - cost) / cost;
    }
    assert_true(sum / 200 < 0.10);
}

void an_outlier_of_a_hundred_times_leaves_predictions_within_ten_per_cent(void**) {
    Predictor predictor(resize_only());
    Pictures pictures(5);
    train(predictor, pictures, 1000);
    const auto picture = pictures.next();
    predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, 100 * cost_of(picture.bytes)));
    assert_true(error_on_new_pictures(predictor) < 0.10);
}

void lanes_lie_at_four_and_sixteen_times_the_running_median(void**) {
    Predictor predictor(resize_only());
    Pictures pictures(6);
    std::mt19937 random(6);
    std::lognormal_distribution<double> costs(std::log(5e6), 0.3);
    for (int i = 0; i < 3000; ++i) {
        const auto picture = pictures.next();
        const double cost = i % 100 == 0 ? 100 * costs(random) : costs(random);
        predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, cost));
    }
    // The mean of these is twice the median; lanes must not follow it.
    const double median = predictor.typical_ns();
    assert_true(median > 0.9 * 5e6 && median < 1.1 * 5e6);
    assert_true(predictor.mean_ns() > 1.4 * median);
    assert_true(predictor.lane_of(3.99 * median) == Lane::kLight);
    assert_true(predictor.lane_of(4.01 * median) == Lane::kMedium);
    assert_true(predictor.lane_of(15.99 * median) == Lane::kMedium);
    assert_true(predictor.lane_of(16.01 * median) == Lane::kHeavy);
}

void a_big_file_among_small_ones_is_predicted_heavy(void**) {
    Predictor predictor(resize_only());
    Pictures pictures(7);
    for (int i = 0; i < 1000; ++i) {
        const auto picture = pictures.next();
        const std::uint64_t bytes = 20'000 + picture.bytes % 20'000;
        predictor.observe(picture.key, bytes, seen_at(bytes, cost_of(bytes)));
    }
    assert_true(predictor.predict({1, 0, 1'000'000}, 30'000, kJpeg).lane == Lane::kLight);
    assert_true(predictor.predict({1, 0, 1'000'000}, 5'000'000, kJpeg).lane == Lane::kHeavy);
}

void a_prediction_is_never_less_than_the_floor(void**) {
    Predictor predictor(resize_only());
    for (std::uint64_t id = 0; id < 1000; ++id)
        predictor.observe({1, 0, id}, 100, seen_at(100, 0));
    assert_true(predictor.predict({1, 0, 5000}, 0, kJpeg).cost_ns >= 20e3);
    assert_true(std::isfinite(predictor.predict({1, 0, 5000}, ~std::uint64_t{0}, 4'000'000'000U).cost_ns));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_a_fixed_part_and_a_part_per_byte_within_ten_per_cent),
        cmocka_unit_test(what_one_format_costs_says_nothing_about_another),
        cmocka_unit_test(progressive_pictures_are_learned_apart_and_do_not_bend_the_others),
        cmocka_unit_test(an_outlier_of_a_hundred_times_leaves_predictions_within_ten_per_cent),
        cmocka_unit_test(lanes_lie_at_four_and_sixteen_times_the_running_median),
        cmocka_unit_test(a_big_file_among_small_ones_is_predicted_heavy),
        cmocka_unit_test(a_prediction_is_never_less_than_the_floor),
    };
    return cmocka_run_group_tests_name("predict/predictor", tests, nullptr, nullptr);
}
