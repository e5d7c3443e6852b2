// The scheduler within one stream: plan order in a lane, heavy samples early, light ones never locked out,
// and no idle worker without a reason.
#include "daemon/schedule/scheduler.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/cmocka_cpp.h"
#include "tests/schedule/one_stream.h"

namespace sl {
namespace {

void a_lane_is_taken_in_plan_order_whatever_order_it_was_filled_in(void**) {
    for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy}) {
        Scheduler scheduler = one_stream(4);
        std::vector<Runnable> samples;
        for (std::uint64_t step = 0; step < 20; ++step) {
            for (std::uint32_t row = 0; row < kBatch; ++row)
                samples.push_back(sample(step, row));
        }
        std::vector<Runnable> shuffled = samples;
        std::ranges::shuffle(shuffled, std::mt19937(1));
        for (const Runnable& one : shuffled)
            scheduler.add(kStream, lane, one);
        for (const Runnable& one : samples) {
            auto pick = scheduler.pick();
            assert_true(pick.has_value());
            assert_true(pick->lane == lane);
            assert_int_equal(pick->runnable.step, one.step);
            assert_int_equal(pick->runnable.row, one.row);
            scheduler.finished(pick->runnable.task, kMean);
        }
        assert_false(scheduler.pick().has_value());
    }
}

void a_runnable_sample_that_turns_out_heavy_is_started_as_one(void**) {
    Scheduler scheduler = one_stream(4);
    scheduler.add(kStream, Lane::kLight, sample(0, 0));
    scheduler.add(kStream, Lane::kLight, sample(9, 0));
    scheduler.move(kStream, Lane::kLight, Lane::kHeavy, sample(9, 0, 100 * kMean));
    assert_int_equal(scheduler.runnable(kStream, Lane::kLight), 1);
    auto pick = scheduler.pick();
    assert_true(pick && pick->lane == Lane::kHeavy && pick->runnable.step == 9);
    assert_true(pick->runnable.predicted_ns == 100 * kMean);
    pick = scheduler.pick();
    assert_true(pick && pick->lane == Lane::kLight && pick->runnable.step == 0);
    assert_false(scheduler.pick().has_value());
    scheduler.move(77, Lane::kLight, Lane::kHeavy, sample(9, 0));  // of a stream that has gone
}

void a_heavy_sample_of_a_later_batch_starts_before_the_light_ones_of_that_batch(void**) {
    Scheduler scheduler = one_stream(4);
    for (std::uint32_t row = 0; row < kBatch; ++row)
        scheduler.add(kStream, Lane::kLight, sample(3, row));
    scheduler.add(kStream, Lane::kHeavy, sample(3, 7, 50 * kMean));
    auto pick = scheduler.pick();
    assert_true(pick->lane == Lane::kHeavy);
    assert_int_equal(pick->runnable.step, 3);
}

void a_heavy_sample_starts_as_much_earlier_as_it_takes_longer(void**) {
    // A batch of 8 at 1 ms on 4 workers takes 2 ms. With the first safety factor of 1.5, a sample of 50 ms in
    // batch 40 (due at 80 ms) must start by 5 ms and one of 100 ms has been late since -70 ms.
    Scheduler scheduler = one_stream(4);
    scheduler.add(kStream, Lane::kLight, sample(2, 0));  // due at 4 ms: by 3 ms
    scheduler.add(kStream, Lane::kMedium, sample(40, 0, 50 * kMean));
    assert_true(scheduler.pick()->lane == Lane::kLight);
    scheduler.add(kStream, Lane::kLight, sample(5, 0));  // due at 10 ms: by 9 ms
    assert_true(scheduler.pick()->lane == Lane::kMedium);
    scheduler.add(kStream, Lane::kHeavy, sample(40, 1, 100 * kMean));
    assert_true(scheduler.pick()->lane == Lane::kHeavy);
}

void a_heavy_sample_that_has_time_waits_for_the_batch_that_is_due(void**) {
    Scheduler scheduler = one_stream(4);
    scheduler.add(kStream, Lane::kLight, sample(0, 0));
    scheduler.add(kStream, Lane::kHeavy, sample(100, 0, 20 * kMean));
    assert_true(scheduler.pick()->lane == Lane::kLight);
}

void the_front_moves_what_is_due(void**) {
    Scheduler scheduler = one_stream(4);
    scheduler.add(kStream, Lane::kLight, sample(60, 0));
    scheduler.add(kStream, Lane::kHeavy, sample(61, 0, 10 * kMean));
    scheduler.update(kStream, 60, kMean);
    assert_true(scheduler.pick()->lane == Lane::kHeavy);
}

void heavy_samples_never_hold_all_workers_while_a_light_one_is_due(void**) {
    for (std::uint32_t workers : {2U, 3U, 8U, 64U}) {
        Scheduler scheduler = one_stream(workers);
        for (std::uint32_t i = 0; i < 2 * workers; ++i) {
            scheduler.add(kStream, i % 2 == 0 ? Lane::kHeavy : Lane::kMedium, sample(0, i, 100 * kMean));
        }
        for (std::uint32_t i = 0; i < 20; ++i)
            scheduler.add(kStream, Lane::kLight, sample(0, 1000 + i));
        std::uint32_t slow_running = 0;
        std::uint32_t light = 0;  // the one that runs
        for (std::uint32_t worker = 0; worker < workers; ++worker) {
            const auto pick = scheduler.pick();
            if (pick->lane == Lane::kLight) light = pick->runnable.task;
            slow_running += pick->lane != Lane::kLight ? 1 : 0;
        }
        assert_int_equal(slow_running, workers - 1);
        // The free worker goes on with light ones until there are none; then the rule gives way.
        for (std::uint32_t i = 1; i < 20; ++i) {
            scheduler.finished(light, kMean);
            const auto pick = scheduler.pick();
            assert_true(pick->lane == Lane::kLight);
            light = pick->runnable.task;
        }
        scheduler.finished(light, kMean);
        assert_true(scheduler.pick()->lane != Lane::kLight);
    }
}

void a_light_sample_that_is_not_due_keeps_no_worker_from_a_heavy_one(void**) {
    Scheduler scheduler = one_stream(2);
    scheduler.add(kStream, Lane::kHeavy, sample(0, 0, 100 * kMean));
    scheduler.add(kStream, Lane::kHeavy, sample(0, 1, 100 * kMean));
    scheduler.add(kStream, Lane::kLight, sample(50, 0));
    assert_true(scheduler.pick()->lane == Lane::kHeavy);
    assert_true(scheduler.pick()->lane == Lane::kHeavy);
}

void one_worker_takes_heavy_samples_too(void**) {
    Scheduler scheduler = one_stream(1);
    scheduler.add(kStream, Lane::kHeavy, sample(0, 0, 100 * kMean));
    scheduler.add(kStream, Lane::kLight, sample(0, 1));
    const auto heavy = scheduler.pick();
    assert_true(heavy->lane == Lane::kHeavy);
    scheduler.finished(heavy->runnable.task, 100 * kMean);
    assert_true(scheduler.pick()->lane == Lane::kLight);
}

void of_two_slow_samples_the_one_that_must_start_earlier_goes_first(void**) {
    for (Lane lane : {Lane::kMedium, Lane::kHeavy}) {
        Scheduler scheduler = one_stream(4);
        scheduler.add(kStream, lane, sample(5, 0, 20 * kMean));
        scheduler.add(kStream, lane, sample(6, 0, 80 * kMean));
        assert_int_equal(scheduler.pick()->runnable.step, 6);
    }
}

// Random adds, removals, picks and finishes against a plain set: a pick fails only when nothing is runnable,
// or when only slow samples are and another sample is running.
void no_worker_idles_without_a_reason_and_nothing_is_given_twice(void**) {
    std::mt19937 random(9);
    Scheduler scheduler = one_stream(4);
    std::map<std::uint32_t, std::pair<Lane, Runnable>> runnable;
    std::vector<std::uint32_t> running;
    std::uint32_t next_task = 0;
    int held = 0;
    // A consumer that leaves time, and some light sample that waits for memory: a worker may be worth
    // keeping.
    for (std::uint64_t step = 0; step <= 3; ++step) {
        scheduler.advance(step * 10'000'000);
        scheduler.taken(kStream, step, false);
    }
    const Runnable waiting = sample(4, 0);
    scheduler.next_light(kStream, &waiting);
    for (int step = 0; step < 200'000; ++step) {
        const std::uint32_t action = running.size() < 8 ? random() % 10 : 9;
        if (action < 4) {
            const Lane lane = static_cast<Lane>(random() % kLanes);
            const Runnable one{random() % 50, static_cast<std::uint32_t>(random() % kBatch), next_task++,
                               kMean * (1 + random() % 100)};
            scheduler.foresee(kStream, lane, one.predicted_ns);
            scheduler.add(kStream, lane, one);
            runnable[one.task] = {lane, one};
        } else if (action == 4 && !runnable.empty()) {
            const auto victim = runnable.begin();
            scheduler.remove(kStream, victim->second.first, victim->second.second);
            runnable.erase(victim);
        } else if (action < 9) {
            const auto pick = scheduler.pick();
            assert_int_equal(scheduler.holds(), !pick.has_value() && !runnable.empty());
            if (scheduler.holds()) {
                assert_false(running.empty());
                assert_int_equal(scheduler.runnable(kStream, Lane::kLight), 0);
                ++held;
            }
            if (!pick) continue;
            assert_int_equal(runnable.erase(pick->runnable.task), 1);
            running.push_back(pick->runnable.task);
        } else if (!running.empty()) {
            random() % 2 == 0 ? scheduler.finished(running.back(), kMean) : scheduler.lost(running.back());
            running.pop_back();
        }
    }
    assert_true(held > 100);
    std::size_t left = 0;
    for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy})
        left += scheduler.runnable(kStream, lane);
    assert_int_equal(left, runnable.size());
}

void a_stream_that_is_unknown_or_gone_has_nothing_runnable(void**) {
    Scheduler scheduler = one_stream(4);
    scheduler.add(99, Lane::kLight, sample(0, 0));
    scheduler.update(99, 5, kMean);
    assert_false(scheduler.pick().has_value());
    scheduler.add(kStream, Lane::kLight, sample(0, 0));
    scheduler.remove_stream(kStream);
    assert_false(scheduler.pick().has_value());
    assert_int_equal(scheduler.runnable(kStream, Lane::kLight), 0);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_is_taken_in_plan_order_whatever_order_it_was_filled_in),
        cmocka_unit_test(a_runnable_sample_that_turns_out_heavy_is_started_as_one),
        cmocka_unit_test(a_heavy_sample_of_a_later_batch_starts_before_the_light_ones_of_that_batch),
        cmocka_unit_test(a_heavy_sample_starts_as_much_earlier_as_it_takes_longer),
        cmocka_unit_test(a_heavy_sample_that_has_time_waits_for_the_batch_that_is_due),
        cmocka_unit_test(the_front_moves_what_is_due),
        cmocka_unit_test(heavy_samples_never_hold_all_workers_while_a_light_one_is_due),
        cmocka_unit_test(a_light_sample_that_is_not_due_keeps_no_worker_from_a_heavy_one),
        cmocka_unit_test(one_worker_takes_heavy_samples_too),
        cmocka_unit_test(of_two_slow_samples_the_one_that_must_start_earlier_goes_first),
        cmocka_unit_test(no_worker_idles_without_a_reason_and_nothing_is_given_twice),
        cmocka_unit_test(a_stream_that_is_unknown_or_gone_has_nothing_runnable),
    };
    return cmocka_run_group_tests_name("schedule/scheduler", tests, nullptr, nullptr);
}
