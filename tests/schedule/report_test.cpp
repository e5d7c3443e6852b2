// The report on predictions: its parts, its signs, and a rank correlation that knows order from chance.
#include <cmath>
#include <random>

#include "daemon/predict/prediction_report.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

void the_report_tells_start_first_epoch_and_warm_samples_apart(void**) {
    PredictionReport report;
    for (int i = 0; i < 300; ++i)
        report.add(2e6, 1e6, false, true);  // 200 of them are the start
    for (int i = 0; i < 100; ++i)
        report.add(1e6, 2e6, true, false);
    assert_int_equal(report.start().samples, 200);
    assert_int_equal(report.first_epoch().samples, 100);
    assert_int_equal(report.warm().samples, 100);
    assert_true(std::abs(report.first_epoch().mape() - 1.0) < 1e-9);
    assert_true(std::abs(report.warm().mape() - 0.5) < 1e-9);
    assert_true(std::abs(report.first_epoch().bias() - std::log(2.0)) < 1e-9);
    assert_true(std::abs(report.warm().bias() + std::log(2.0)) < 1e-9);
    assert_true(report.first_epoch().class_error() == 1 && report.warm().class_error() == 0);
}

void the_rank_correlation_is_one_for_any_rising_curve_and_near_zero_for_chance(void**) {
    std::mt19937 random(9);
    std::uniform_real_distribution<double> uniform(1, 10);
    PredictionReport rising;
    PredictionReport falling;
    PredictionReport chance;
    assert_true(rising.rank_correlation() == 0);
    for (int i = 0; i < 5000; ++i) {
        const double x = uniform(random);
        rising.add(std::exp(x), x, true, false);
        falling.add(1e6 - x, x, true, false);
        chance.add(uniform(random), x, true, false);
    }
    assert_true(std::abs(rising.rank_correlation() - 1) < 1e-9);
    assert_true(std::abs(falling.rank_correlation() + 1) < 1e-9);
    assert_true(std::abs(chance.rank_correlation()) < 0.15);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_report_tells_start_first_epoch_and_warm_samples_apart),
        cmocka_unit_test(the_rank_correlation_is_one_for_any_rising_curve_and_near_zero_for_chance),
    };
    return cmocka_run_group_tests_name("predict/report", tests, nullptr, nullptr);
}
