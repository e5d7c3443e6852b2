// The predictor: learns what a sample costs from what it did cost, knows each sample once it has been
// decoded, and shrugs off accidents.
#include "daemon/predict/predictor.h"

#include <cmath>
#include <random>

#include "daemon/plan/draws.h"
#include "tests/cmocka_cpp.h"
#include "tests/schedule/pictures.h"

namespace sl {
namespace {

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
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(1);
    const double before = error_on_new_pictures(predictor);
    train(predictor, pictures, 1000);
    const double after = error_on_new_pictures(predictor);
    assert_true(before > 0.15);  // else there was nothing to learn
    assert_true(after < 0.10);
}

void with_pictures_known_the_crops_bottom_edge_and_area_explain_the_cost_within_six_per_cent(void**) {
    const Pipeline pipeline = random_crop();
    Predictor predictor(pipeline, kIds);
    Pictures pictures(11);
    constexpr std::uint64_t kSamples = 1500;
    double errors[2] = {};
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        for (std::uint64_t id = 0; id < kSamples; ++id) {
            const Cropped sample = cropped(pictures, pipeline, id, epoch);
            const Prediction prediction = predictor.predict(sample.key, sample.bytes, kJpeg);
            assert_int_equal(prediction.known, epoch == 1);
            if (epoch == 1 || id >= 200) {
                errors[epoch] += std::abs(prediction.cost_ns / sample.observed.cost_ns - 1) /
                                 static_cast<double>(epoch == 1 ? kSamples : kSamples - 200);
            }
            predictor.observe(sample.key, sample.bytes, sample.observed);
        }
    }
    assert_true(errors[0] < 0.30);  // of a first epoch: the picture's size is guessed
    assert_true(errors[1] < 0.06);  // the noise alone makes 0.04
}

void what_one_format_costs_says_nothing_about_another(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(2);
    const double before = predictor.predict({1, 0, 5'000'000}, 500'000, kPng).cost_ns;
    train(predictor, pictures, 1000, 5);
    assert_true(predictor.predict({1, 0, 5'000'000}, 500'000, kPng).cost_ns == before);
}

void progressive_pictures_are_told_apart_once_they_are_known(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(3);
    for (int i = 0; i < 500; ++i) {
        train(predictor, pictures, 1);
        train(predictor, pictures, 1, 6, true);
    }
    Pictures again(3);
    double errors[2] = {};
    for (int i = 0; i < 1000; ++i) {
        const auto picture = again.next();
        again.noise();
        const double cost = (i % 2 == 0 ? 1 : 6) * cost_of(picture.bytes);
        const DrawKey next_epoch{1, 1, picture.key.sample_id};
        errors[i % 2] +=
            std::abs(predictor.predict(next_epoch, picture.bytes, kJpeg).cost_ns - cost) / cost / 500;
    }
    assert_true(errors[0] < 0.10);
    assert_true(errors[1] < 0.10);
}

void a_sample_that_costs_more_than_it_looks_is_known_after_its_first_decode(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(4);
    train(predictor, pictures, 500);
    const auto odd = pictures.next();
    const double cost = 20 * cost_of(odd.bytes);
    assert_true(predictor.predict(odd.key, odd.bytes, kJpeg).cost_ns < cost / 10);
    predictor.observe(odd.key, odd.bytes, seen_at(odd.bytes, cost));
    const Prediction prediction = predictor.predict({1, 1, odd.key.sample_id}, odd.bytes, kJpeg);
    assert_true(prediction.cost_ns > 0.8 * cost && prediction.cost_ns < 1.25 * cost);
    assert_true(prediction.lane == Lane::kHeavy);
    assert_true(error_on_new_pictures(predictor) < 0.10);  // and it has not bent the others
}

void an_accident_is_forgotten_after_a_few_decodes(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(5);
    train(predictor, pictures, 1000);
    const auto picture = pictures.next();
    predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, 100 * cost_of(picture.bytes)));
    assert_true(error_on_new_pictures(predictor) < 0.10);
    for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
        const DrawKey key{1, epoch, picture.key.sample_id};
        predictor.observe(key, picture.bytes, seen_at(picture.bytes, cost_of(picture.bytes)));
    }
    const double now = predictor.predict({1, 6, picture.key.sample_id}, picture.bytes, kJpeg).cost_ns;
    assert_true(now < 1.3 * cost_of(picture.bytes));
}

void a_file_of_another_size_is_another_picture(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(6);
    train(predictor, pictures, 500);
    const auto picture = pictures.next();
    predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, 20 * cost_of(picture.bytes)));
    const DrawKey next_epoch{1, 1, picture.key.sample_id};
    assert_true(predictor.predict(next_epoch, picture.bytes, kJpeg).known);
    const Prediction changed = predictor.predict(next_epoch, picture.bytes + 1, kJpeg);
    assert_false(changed.known);
    assert_true(changed.cost_ns < 2 * cost_of(picture.bytes));
}

void a_machine_that_becomes_twice_as_slow_is_followed(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(7);
    train(predictor, pictures, 1000);
    train(predictor, pictures, 1500, 2);
    double sum = 0;
    for (int i = 0; i < 500; ++i) {
        const auto picture = pictures.next();
        sum += std::log(predictor.predict(picture.key, picture.bytes, kJpeg).cost_ns /
                        (2 * cost_of(picture.bytes)));
    }
    assert_true(std::abs(sum / 500) < 0.05);
}

void a_big_file_among_small_ones_is_heavy_from_the_first_batch_on(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(8);
    for (int i = 0; i < 16; ++i) {
        const auto picture = pictures.next();
        assert_true(predictor.predict(picture.key, 20'000 + picture.bytes % 20'000, kJpeg).lane ==
                    Lane::kLight);
    }
    assert_true(predictor.predict({1, 0, 1'000'000}, 5'000'000, kJpeg).lane == Lane::kHeavy);
}

void a_prediction_is_finite_and_never_less_than_the_floor(void**) {
    Predictor predictor(resize_only(), kIds);
    for (std::uint64_t id = 0; id < 1000; ++id)
        predictor.observe({1, 0, id}, 100, seen_at(100, 0));
    assert_true(predictor.predict({1, 0, 5000}, 0, kJpeg).cost_ns >= 20e3);
    predictor.observe({1, 0, 6000}, 0, {kJpeg, 0, 0, false, std::nan("")});
    predictor.observe({1, 0, 6001}, ~std::uint64_t{0}, {4'000'000'000U, ~0U, ~0U, true, 1e300});
    for (const std::uint64_t id : {std::uint64_t{6000}, std::uint64_t{6001}, kIds, ~std::uint64_t{0}}) {
        const double cost = predictor.predict({1, 1, id}, ~std::uint64_t{0}, 4'000'000'000U).cost_ns;
        assert_true(std::isfinite(cost) && cost >= 20e3);
    }
    assert_true(std::isfinite(predictor.mean_ns()) && std::isfinite(predictor.typical_ns()));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_a_fixed_part_and_a_part_per_byte_within_ten_per_cent),
        cmocka_unit_test(
            with_pictures_known_the_crops_bottom_edge_and_area_explain_the_cost_within_six_per_cent),
        cmocka_unit_test(what_one_format_costs_says_nothing_about_another),
        cmocka_unit_test(progressive_pictures_are_told_apart_once_they_are_known),
        cmocka_unit_test(a_sample_that_costs_more_than_it_looks_is_known_after_its_first_decode),
        cmocka_unit_test(an_accident_is_forgotten_after_a_few_decodes),
        cmocka_unit_test(a_file_of_another_size_is_another_picture),
        cmocka_unit_test(a_machine_that_becomes_twice_as_slow_is_followed),
        cmocka_unit_test(a_big_file_among_small_ones_is_heavy_from_the_first_batch_on),
        cmocka_unit_test(a_prediction_is_finite_and_never_less_than_the_floor),
    };
    return cmocka_run_group_tests_name("predict/predictor", tests, nullptr, nullptr);
}
