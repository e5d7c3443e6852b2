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
    };
    return cmocka_run_group_tests_name("schedule/admission", tests, nullptr, nullptr);
}
