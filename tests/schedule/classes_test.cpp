// The cost classes: from the live distribution, and still.
#include <cmath>
#include <random>
#include <set>

#include "daemon/predict/cost_classes.h"
#include "daemon/predict/predictor.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

// `count` costs around `typical_ms`, one in a hundred of them a hundred times that.
void add_with_tail(CostClasses& classes, std::mt19937& random, double typical_ms, int count) {
    std::lognormal_distribution<double> costs(std::log(typical_ms * 1e6), 0.3);
    for (int i = 0; i < count; ++i)
        classes.add(i % 100 == 0 ? 100 * costs(random) : costs(random));
}

void borders_lie_at_four_and_sixteen_times_the_median_which_a_tail_does_not_move(void**) {
    CostClasses classes;
    std::mt19937 random(1);
    add_with_tail(classes, random, 5, 3000);
    const double typical = classes.typical_ns();
    assert_true(typical > 0.88 * 5e6 && typical < 1.12 * 5e6);
    assert_true(classes.lane_of(3.99 * typical) == Lane::kLight);
    assert_true(classes.lane_of(4.01 * typical) == Lane::kMedium);
    assert_true(classes.lane_of(15.99 * typical) == Lane::kMedium);
    assert_true(classes.lane_of(16.01 * typical) == Lane::kHeavy);
    assert_true(classes.medium_from_ns() == 4 * typical && classes.heavy_from_ns() == 16 * typical);
}

void near_constant_sets_have_light_samples_only_whatever_they_cost(void**) {
    for (const double typical_ms : {0.03, 1.0, 500.0, 60'000.0}) {
        CostClasses classes;
        std::mt19937 random(2);
        std::lognormal_distribution<double> costs(std::log(typical_ms * 1e6), 0.2);
        for (int i = 0; i < 2000; ++i) {
            const double cost = costs(random);
            classes.add(cost);
            assert_true(classes.lane_of(cost) == Lane::kLight);
        }
    }
}

void borders_do_not_move_while_the_distribution_does_not(void**) {
    CostClasses classes;
    std::mt19937 random(3);
    add_with_tail(classes, random, 5, 2000);
    std::set<double> borders;
    for (int i = 0; i < 200; ++i) {
        add_with_tail(classes, random, 5, 100);
        borders.insert(classes.heavy_from_ns());
    }
    assert_int_equal(borders.size(), 1);
}

void borders_do_not_jump_between_the_halves_of_a_set_with_two_kinds(void**) {
    CostClasses classes;
    std::mt19937 random(4);
    std::set<double> borders;
    for (int i = 0; i < 20'000; ++i) {
        classes.add(random() % 2 == 0 ? 1e6 : 50e6);
        if (i >= 1000) borders.insert(classes.medium_from_ns());
    }
    assert_int_equal(borders.size(), 1);
}

void borders_follow_a_set_that_becomes_three_times_as_expensive(void**) {
    CostClasses classes;
    std::mt19937 random(5);
    add_with_tail(classes, random, 5, 5000);
    add_with_tail(classes, random, 15, 5000);
    assert_true(classes.typical_ns() > 0.8 * 15e6 && classes.typical_ns() < 1.2 * 15e6);
}

void a_sample_near_a_border_keeps_the_class_it_had(void**) {
    CostClasses classes;
    for (int i = 0; i < 1000; ++i)
        classes.add(1e6);
    const double border = classes.medium_from_ns();
    for (const double near : {0.9, 1.1}) {
        assert_true(classes.lane_of(near * border, Lane::kLight) == Lane::kLight);
        assert_true(classes.lane_of(near * border, Lane::kMedium) == Lane::kMedium);
    }
    assert_true(classes.lane_of(1.25 * border, Lane::kLight) == Lane::kMedium);
    assert_true(classes.lane_of(border / 1.25, Lane::kMedium) == Lane::kLight);
    assert_true(classes.lane_of(100 * border, Lane::kLight) == Lane::kHeavy);
    assert_true(classes.lane_of(border / 100, Lane::kHeavy) == Lane::kLight);
}

// Twenty epochs over samples that all lie at a border, with a tenth of noise: without hysteresis half of them
// would change their class every other epoch.
void samples_do_not_flap_between_classes_from_epoch_to_epoch(void**) {
    Pipeline pipeline;
    pipeline.op_count = 2;
    pipeline.ops[1].kind = OpKind::kResize;
    pipeline.ops[1].height = pipeline.ops[1].width = pipeline.height = pipeline.width = 64;
    Predictor predictor(pipeline, 1000);
    std::mt19937 random(6);
    std::lognormal_distribution<double> noise(0, 0.1);
    constexpr int kBorderline = 100;
    int changes = 0;
    std::array<Lane, kBorderline> before{};
    for (std::uint64_t epoch = 0; epoch < 21; ++epoch) {
        for (std::uint64_t id = 0; id < 1000; ++id) {
            const bool borderline = id < kBorderline;
            const Prediction prediction = predictor.predict({0, epoch, id}, 50'000, 1);
            predictor.observe({0, epoch, id}, 50'000,
                              {1, 400, 300, false, (borderline ? 4e6 : 1e6) * noise(random)});
            if (!borderline || epoch == 0) continue;
            if (epoch > 1 && prediction.lane != before[id]) ++changes;
            before[id] = prediction.lane;
        }
    }
    assert_true(changes < 19 * kBorderline / 50);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(borders_lie_at_four_and_sixteen_times_the_median_which_a_tail_does_not_move),
        cmocka_unit_test(near_constant_sets_have_light_samples_only_whatever_they_cost),
        cmocka_unit_test(borders_do_not_move_while_the_distribution_does_not),
        cmocka_unit_test(borders_do_not_jump_between_the_halves_of_a_set_with_two_kinds),
        cmocka_unit_test(borders_follow_a_set_that_becomes_three_times_as_expensive),
        cmocka_unit_test(a_sample_near_a_border_keeps_the_class_it_had),
        cmocka_unit_test(samples_do_not_flap_between_classes_from_epoch_to_epoch),
    };
    return cmocka_run_group_tests_name("predict/classes", tests, nullptr, nullptr);
}
