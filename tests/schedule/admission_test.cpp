// Who gets memory next: in the order in which the scheduler wants the samples, and nobody is passed for ever.
#include "daemon/schedule/admission.h"

#include <vector>

#include "daemon/schedule/scheduler.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kStream = 1;
constexpr double kMean = 1e6;
constexpr std::uint32_t kCap = 4;

class Waiting {
  public:
    Waiting() {
        scheduler_.add_stream(kStream, {.batch_size = 8});
        scheduler_.update(kStream, 0, kMean);
    }
    void add(Lane lane, std::uint64_t step, std::uint32_t row, double cost = kMean) {
        admission.add(lane, {step, row, next_++, cost});
    }
    // The tasks that were taken, in order; `answer` says what becomes of each offer.
    template <class Answer>
    std::vector<std::uint32_t> offer(Answer answer, std::uint64_t due_step = 0) {
        std::vector<std::uint32_t> taken;
        admission.offer(scheduler_, kStream, due_step, kCap, [&](Lane lane, const Runnable& one) {
            const Offer found = answer(lane, one);
            if (found == Offer::kTaken) {
                admission.entered(lane);
                taken.push_back(one.task);
            }
            return found;
        });
        return taken;
    }
    Admission admission;

  private:
    Scheduler scheduler_{4};
    std::uint32_t next_ = 0;
};

Offer take_all(Lane, const Runnable&) {
    return Offer::kTaken;
}

using Tasks = std::vector<std::uint32_t>;

void a_heavy_sample_of_a_later_batch_is_read_before_light_ones_that_have_time(void**) {
    Waiting waiting;
    waiting.add(Lane::kLight, 1, 0);
    waiting.add(Lane::kLight, 9, 0);
    waiting.add(Lane::kHeavy, 12, 0, 15 * kMean);  // due at 24 ms, to be started by 1.5
    assert_true(waiting.offer(take_all) == Tasks({0, 2, 1}));
}

void a_lane_without_a_slot_waits_and_the_others_go_on(void**) {
    Waiting waiting;
    waiting.add(Lane::kHeavy, 1, 0, 100 * kMean);
    waiting.add(Lane::kLight, 1, 1);
    waiting.add(Lane::kLight, 1, 2);
    auto no_heavy = [](Lane lane, const Runnable&) {
        return lane == Lane::kHeavy ? Offer::kNoSlot : Offer::kTaken;
    };
    assert_true(waiting.offer(no_heavy) == Tasks({1, 2}));
    assert_true(waiting.offer(take_all) == Tasks({0}));  // it was not lost
}

void a_sample_without_room_for_its_bytes_makes_all_later_ones_wait(void**) {
    Waiting waiting;
    waiting.add(Lane::kHeavy, 1, 0, 100 * kMean);
    waiting.add(Lane::kLight, 1, 1);
    int offers = 0;
    auto no_room = [&](Lane, const Runnable&) {
        ++offers;
        return Offer::kNoRoom;
    };
    assert_true(waiting.offer(no_room).empty());
    assert_int_equal(offers, 1);
    assert_true(waiting.offer(take_all) == Tasks({0, 1}));
}

void only_a_few_samples_a_lane_lie_ready_but_the_due_batch_is_not_counted(void**) {
    Waiting waiting;
    for (std::uint32_t row = 0; row < 8; ++row)
        waiting.add(Lane::kLight, 5, row);
    assert_int_equal(waiting.offer(take_all).size(), kCap);
    assert_int_equal(waiting.offer(take_all, 4).size(), 0);
    assert_int_equal(waiting.offer(take_all, 5).size(), 4);
}

void reads_go_further_ahead_while_workers_find_nothing_and_less_far_when_they_do(void**) {
    Waiting waiting;
    for (std::uint32_t row = 0; row < 64; ++row)
        waiting.add(Lane::kLight, 5, row);
    waiting.admission.starved();  // nothing is being read: more reads would not be the cure
    assert_int_equal(waiting.offer(take_all).size(), kCap);
    for (int i = 0; i < 10; ++i)
        waiting.admission.starved();
    assert_int_equal(waiting.offer(take_all).size(), 10);
    for (std::uint32_t i = 0; i < kCap + 10; ++i)
        waiting.admission.left(Lane::kLight);
    for (int i = 0; i < 1000; ++i)
        waiting.admission.fed(4, 4);
    assert_int_equal(waiting.offer(take_all).size(), kCap);
}

void late_samples_come_first_in_plan_order_whatever_they_cost(void**) {
    Waiting waiting;
    waiting.add(Lane::kHeavy, 30, 0, 1000 * kMean);
    waiting.add(Lane::kLight, 4, 0);
    waiting.add(Lane::kMedium, 3, 0, 8 * kMean);
    waiting.add(Lane::kHeavy, 2, 0, 20 * kMean);
    assert_true(waiting.offer(take_all, 10) == Tasks({3, 2, 1, 0}));
}

void a_sample_that_is_moved_when_it_is_offered_takes_its_turn_in_its_new_lane(void**) {
    Waiting waiting;
    waiting.add(Lane::kLight, 9, 0);  // was taken for a light one
    waiting.add(Lane::kLight, 9, 1);
    waiting.add(Lane::kHeavy, 9, 2, 15 * kMean);
    auto heavy_by_now = [&](Lane lane, const Runnable& one) {
        if (one.task != 0 || lane == Lane::kHeavy) return Offer::kTaken;
        waiting.admission.move(lane, Lane::kHeavy, {one.step, one.row, one.task, 16 * kMean});
        return Offer::kMoved;
    };
    assert_true(waiting.offer(heavy_by_now) == Tasks({2, 0, 1}));
    assert_int_equal(waiting.admission.in_memory(Lane::kLight), 1);
    assert_int_equal(waiting.admission.in_memory(Lane::kHeavy), 2);
    assert_true(waiting.admission.waiting().empty());
}

void samples_that_are_moved_to_and_fro_end_the_offer_and_are_still_there(void**) {
    Waiting waiting;
    for (std::uint32_t row = 0; row < 4; ++row)
        waiting.add(Lane::kLight, 1, row);
    auto always_elsewhere = [&](Lane lane, const Runnable& one) {
        waiting.admission.move(lane, lane == Lane::kLight ? Lane::kHeavy : Lane::kLight, one);
        return Offer::kMoved;
    };
    assert_true(waiting.offer(always_elsewhere).empty());
    assert_int_equal(waiting.admission.waiting().size(), 4);
    assert_int_equal(waiting.offer(take_all).size(), 4);
}

void all_that_wait_can_be_given_new_costs_and_lanes(void**) {
    Waiting waiting;
    for (std::uint32_t row = 0; row < 8; ++row)
        waiting.add(Lane::kLight, 9, row);
    std::uint32_t asked = 0;
    waiting.admission.renew([&](Runnable& one) {
        ++asked;
        if (one.row % 4 != 3) return Lane::kLight;
        one.predicted_ns = 20 * kMean;
        return Lane::kHeavy;
    });
    assert_int_equal(asked, 8);  // a sample that moves to a later lane is not asked for again
    assert_int_equal(waiting.admission.waiting().size(Lane::kLight), 6);
    assert_int_equal(waiting.admission.waiting().size(Lane::kHeavy), 2);
    assert_true(waiting.admission.waiting().head(Lane::kHeavy)->predicted_ns == 20 * kMean);
    assert_true(waiting.offer(take_all) == Tasks({3, 7, 0, 1, 2, 4}));  // at most four light ones lie ready
    assert_int_equal(waiting.admission.in_memory(Lane::kHeavy), 2);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_heavy_sample_of_a_later_batch_is_read_before_light_ones_that_have_time),
        cmocka_unit_test(a_lane_without_a_slot_waits_and_the_others_go_on),
        cmocka_unit_test(a_sample_without_room_for_its_bytes_makes_all_later_ones_wait),
        cmocka_unit_test(only_a_few_samples_a_lane_lie_ready_but_the_due_batch_is_not_counted),
        cmocka_unit_test(reads_go_further_ahead_while_workers_find_nothing_and_less_far_when_they_do),
        cmocka_unit_test(late_samples_come_first_in_plan_order_whatever_they_cost),
        cmocka_unit_test(a_sample_that_is_moved_when_it_is_offered_takes_its_turn_in_its_new_lane),
        cmocka_unit_test(samples_that_are_moved_to_and_fro_end_the_offer_and_are_still_there),
        cmocka_unit_test(all_that_wait_can_be_given_new_costs_and_lanes),
    };
    return cmocka_run_group_tests_name("schedule/admission", tests, nullptr, nullptr);
}
