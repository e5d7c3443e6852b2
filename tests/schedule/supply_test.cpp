// Whether light samples suffice beside slow ones: cases that can be reckoned by hand.
#include "daemon/schedule/supply.h"

#include <vector>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

bool suffice(std::vector<double> slow, std::uint32_t workers, std::vector<LightDemand> demands) {
    return light_samples_suffice(slow, workers, demands);
}

void without_demand_or_without_slow_samples_they_do(void**) {
    assert_true(suffice({}, 2, {{1.5, 0}}));
    assert_true(suffice({100, 100}, 2, {}));
    assert_true(suffice({100, 100}, 2, {{0, 0}}));
}

void one_free_worker_feeds_a_demand_of_one(void**) {
    assert_true(suffice({100}, 2, {{1, 0}}));
    assert_false(suffice({100}, 2, {{1.01, 0}}));
    assert_true(suffice({100, 200, 300}, 4, {{1, 0}}));
}

void a_store_lasts_until_the_first_slow_sample_ends(void**) {
    assert_true(suffice({50, 100}, 2, {{1, 50}}));
    assert_false(suffice({50, 100}, 2, {{1, 49}}));
    // The second one's end matters where one worker alone is too little.
    assert_false(suffice({50, 100}, 2, {{1.2, 50}}));
    assert_true(suffice({50, 100}, 2, {{1.2, 59}}));
}

void demands_of_all_streams_count_together(void**) {
    assert_true(suffice({100}, 2, {{0.5, 0}, {0.5, 0}}));
    assert_false(suffice({100}, 2, {{0.5, 0}, {0.6, 0}}));
    assert_true(suffice({100}, 2, {{0.5, 0}, {0.6, 20}}));
}

void more_slow_samples_than_workers_are_no_more_than_all(void**) {
    assert_false(suffice({10, 10, 10}, 2, {{1, 0}}));
    assert_true(suffice({10, 10, 10}, 2, {{1, 10}}));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(without_demand_or_without_slow_samples_they_do),
        cmocka_unit_test(one_free_worker_feeds_a_demand_of_one),
        cmocka_unit_test(a_store_lasts_until_the_first_slow_sample_ends),
        cmocka_unit_test(demands_of_all_streams_count_together),
        cmocka_unit_test(more_slow_samples_than_workers_are_no_more_than_all),
    };
    return cmocka_run_group_tests_name("schedule/supply", tests, nullptr, nullptr);
}
