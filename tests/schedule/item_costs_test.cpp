// What items cost is learned whatever their order of magnitude, with the client's hints and without; a crew's
// next stream finds what the last one learned.
#include <cmath>

#include "daemon/pool/event_loop.h"
#include "daemon/predict/crew_costs.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kItems = 400;

// One item in twenty costs so much more than the others, and its hint says so.
double times(std::uint64_t item) {
    return item % 20 == 7 ? 40 : 1;
}

void run_epoch(CostModel& model, double unit_ns, bool hinted, std::uint64_t epoch = 0) {
    for (std::uint64_t item = 0; item < kItems; ++item) {
        const std::uint64_t bytes = model.bytes_of(hinted ? times(item) * 3 : 1);
        model.observe({0, epoch, item}, bytes, {.cost_ns = unit_ns * times(item)});
    }
}

// Predicted over actual.
double off_by(CostModel& model, std::uint64_t item, double unit_ns, bool hinted) {
    const std::uint64_t bytes = model.bytes_of(hinted ? times(item) * 3 : 1);
    return model.predict({0, 1, item}, bytes, 0).cost_ns / (unit_ns * times(item));
}

CostModel fresh(bool hinted) {
    return CostModel(CostModel::Items{2 * kItems, hinted ? 3 * (0.95 + 40 * 0.05) : 1});
}

void hints_tell_items_apart_that_have_never_been_seen(void**) {
    for (const double unit_ns : {1e5, 2e6, 4e8}) {
        CostModel model = fresh(true);
        run_epoch(model, unit_ns, true);
        const std::uint64_t light = kItems + 1;
        const std::uint64_t heavy = kItems + 7;
        assert_true(std::abs(std::log(off_by(model, light, unit_ns, true))) < 0.4);
        assert_true(std::abs(std::log(off_by(model, heavy, unit_ns, true))) < 0.4);
    }
}

void without_hints_each_item_is_known_by_its_own_past(void**) {
    for (const double unit_ns : {1e5, 2e6, 4e8}) {
        CostModel model = fresh(false);
        run_epoch(model, unit_ns, false);
        run_epoch(model, unit_ns, false, 1);
        for (const std::uint64_t item : {1U, 27U, 301U, 307U})
            assert_true(std::abs(std::log(off_by(model, item, unit_ns, false))) < 0.4);
    }
}

void what_a_guest_says_of_pictures_does_not_matter(void**) {
    CostModel model = fresh(false);
    CostModel other = fresh(false);
    for (std::uint64_t item = 0; item < kItems; ++item) {
        model.observe({0, 0, item}, 1000, {.cost_ns = 3e6});
        other.observe({0, 0, item}, 1000, {5, 4000, 3000, true, 3e6});
    }
    assert_true(model.predict({0, 1, 5}, 1000, 0).cost_ns == other.predict({0, 1, 5}, 1000, 0).cost_ns);
}

void an_items_size_is_its_hint_over_the_mean_and_never_out_of_bounds(void**) {
    const CostModel model(CostModel::Items{10, 4});
    assert_int_equal(model.bytes_of(4), 1000);
    assert_int_equal(model.bytes_of(400), 100000);
    assert_int_equal(model.bytes_of(1e-300), 1);
    assert_true(model.bytes_of(1e300) == 1'000'000'000'000'000);
}

void a_crews_next_stream_finds_what_was_learned_and_room_for_more_items(void**) {
    auto loop = EventLoop::create();
    assert_true(loop.has_value());
    CrewCosts costs(**loop);
    auto first = costs.open(5, kItems, 1);
    run_epoch(*first, 2e6, false);
    const CostModel* address = first.get();
    costs.ended(*first);
    first.reset();
    assert_int_equal(costs.known(), 1);
    auto next = costs.open(5, 3 * kItems, 7);
    assert_true(next.get() == address);
    assert_int_equal(next->history().known(), kItems);
    next->observe({0, 0, 2 * kItems}, 1000, {.cost_ns = 1e6});
    assert_int_equal(next->history().known(), kItems + 1);
    assert_false(costs.open(6, kItems, 1).get() == address);
}

void numbers_far_apart_are_not_remembered_one_by_one(void**) {
    CostModel model(CostModel::Items{UINT64_MAX, 1});
    model.observe({0, 0, UINT64_MAX - 1}, 1000, {.cost_ns = 1e6});
    assert_int_equal(model.history().samples(), 0);
    assert_true(model.predict({0, 1, UINT64_MAX - 1}, 1000, 0).cost_ns > 0);
}

void of_crews_that_have_gone_only_the_last_are_remembered(void**) {
    auto loop = EventLoop::create();
    assert_true(loop.has_value());
    CrewCosts costs(**loop);
    auto stays = costs.open(1000, 10, 1);
    for (std::uint64_t crew = 0; crew < 2 * CrewCosts::kMostIdle; ++crew)
        costs.ended(*costs.open(crew, 10, 1));
    assert_int_equal(costs.known(), CrewCosts::kMostIdle + 1);
    assert_true(costs.open(1000, 10, 1) == stays);
}

void a_crew_that_stays_away_is_forgotten(void**) {
    auto loop = EventLoop::create();
    assert_true(loop.has_value());
    CrewCosts costs(**loop, std::chrono::milliseconds(1));
    costs.ended(*costs.open(5, 10, 1));
    (*loop)->after(std::chrono::milliseconds(20), [&] { (*loop)->stop(); });
    (*loop)->run();
    assert_int_equal(costs.known(), 0);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(hints_tell_items_apart_that_have_never_been_seen),
        cmocka_unit_test(without_hints_each_item_is_known_by_its_own_past),
        cmocka_unit_test(what_a_guest_says_of_pictures_does_not_matter),
        cmocka_unit_test(an_items_size_is_its_hint_over_the_mean_and_never_out_of_bounds),
        cmocka_unit_test(a_crews_next_stream_finds_what_was_learned_and_room_for_more_items),
        cmocka_unit_test(numbers_far_apart_are_not_remembered_one_by_one),
        cmocka_unit_test(of_crews_that_have_gone_only_the_last_are_remembered),
        cmocka_unit_test(a_crew_that_stays_away_is_forgotten),
    };
    return cmocka_run_group_tests_name("predict/item_costs", tests, nullptr, nullptr);
}
