// The regression behind the predictor: finds the line, follows a change, and shrugs off an outlier.
#include "daemon/predict/regression.h"

#include <cmath>
#include <random>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

struct Line {
    double fixed;
    double first;
    double second;
    [[nodiscard]] double at(const Regression::Features& x) const {
        return fixed * x[0] + first * x[1] + second * x[2];
    }
};

class Source {
  public:
    explicit Source(std::uint32_t seed) : random_(seed) {}
    Regression::Features features() { return {1.0, uniform_(random_), 4 * uniform_(random_)}; }
    // `y` with five per cent of noise.
    double noisy(double y) { return y * (1 + 0.05 * normal_(random_)); }

  private:
    std::mt19937 random_;
    std::uniform_real_distribution<double> uniform_{0.05, 1.0};
    std::normal_distribution<double> normal_{0, 1};
};

void train(Regression& regression, Source& source, const Line& line, int count) {
    for (int i = 0; i < count; ++i) {
        const auto x = source.features();
        regression.observe(x, source.noisy(line.at(x)));
    }
}

double mean_relative_error(const Regression& regression, Source& source, const Line& line) {
    double sum = 0;
    for (int i = 0; i < 1000; ++i) {
        const auto x = source.features();
        sum += std::abs(regression.predict(x) - line.at(x)) / line.at(x);
    }
    return sum / 1000;
}

constexpr Line kLine{0.3, 9.0, 2.5};

void it_starts_from_its_prior(void**) {
    const Regression regression({1, 2, 3});
    assert_true(regression.predict({1, 10, 100}) == 321);
}

void it_finds_a_line_through_noise_within_a_few_hundred_observations(void**) {
    Regression regression({5, 1, 0});
    Source source(1);
    train(regression, source, kLine, 300);
    assert_true(mean_relative_error(regression, source, kLine) < 0.03);
}

void it_follows_a_machine_that_became_three_times_slower(void**) {
    Regression regression({0.2, 8, 3});
    Source source(2);
    train(regression, source, kLine, 2000);
    const Line slower{3 * kLine.fixed, 3 * kLine.first, 3 * kLine.second};
    train(regression, source, slower, 3000);
    assert_true(mean_relative_error(regression, source, slower) < 0.05);
}

void an_outlier_of_a_hundred_times_moves_a_prediction_by_less_than_a_tenth(void**) {
    Regression regression({0.2, 8, 3});
    Source source(3);
    train(regression, source, kLine, 500);
    for (int i = 0; i < 20; ++i) {
        const auto x = source.features();
        const double before = regression.predict({1, 0.5, 2});
        regression.observe(x, 100 * kLine.at(x));
        assert_true(std::abs(regression.predict({1, 0.5, 2}) - before) < 0.1 * before);
        train(regression, source, kLine, 50);
    }
    assert_true(mean_relative_error(regression, source, kLine) < 0.06);
}

void a_hundred_thousand_equal_observations_leave_it_finite_and_able_to_learn(void**) {
    Regression regression({0.2, 8, 3});
    for (int i = 0; i < 100'000; ++i)
        regression.observe({1, 0.5, 2}, kLine.at({1, 0.5, 2}));
    assert_true(std::abs(regression.predict({1, 0.5, 2}) / kLine.at({1, 0.5, 2}) - 1) < 0.01);
    Source source(4);
    train(regression, source, kLine, 2000);
    assert_true(mean_relative_error(regression, source, kLine) < 0.05);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_from_its_prior),
        cmocka_unit_test(it_finds_a_line_through_noise_within_a_few_hundred_observations),
        cmocka_unit_test(it_follows_a_machine_that_became_three_times_slower),
        cmocka_unit_test(an_outlier_of_a_hundred_times_moves_a_prediction_by_less_than_a_tenth),
        cmocka_unit_test(a_hundred_thousand_equal_observations_leave_it_finite_and_able_to_learn),
    };
    return cmocka_run_group_tests_name("predict/regression", tests, nullptr, nullptr);
}
