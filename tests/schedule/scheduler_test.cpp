// The scheduler within one stream: plan order in a lane, heavy samples early, light ones never locked out,
// and no idle worker without a reason.
#include "daemon/schedule/scheduler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kStream = 1;
constexpr std::uint32_t kBatch = 8;
constexpr double kMean = 1e6;

Scheduler one_stream(std::uint32_t workers) {
    Scheduler scheduler(workers);
    scheduler.add_stream(kStream, {.batch_size = kBatch});
    scheduler.update(kStream, 0, kMean);
    return scheduler;
}

Runnable sample(std::uint64_t step, std::uint32_t row, double cost = kMean) {
    return {step, row, static_cast<std::uint32_t>(step * kBatch + row), cost};
}

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

void on_half_as_many_cores_everything_takes_twice_as_long(void**) {
    Scheduler own_cores(4);
    Scheduler shared_cores(4, 2);
    for (Scheduler* scheduler : {&own_cores, &shared_cores}) {
        scheduler->add_stream(kStream, {.batch_size = kBatch});
        scheduler->update(kStream, 0, kMean);
    }
    for (Lane lane : {Lane::kLight, Lane::kHeavy}) {
        const Runnable later = sample(3, 0, 50 * kMean);
        const double start = own_cores.latest_start(kStream, lane, later);
        assert_true(start < 0);
        assert_true(std::abs(shared_cores.latest_start(kStream, lane, later) - 2 * start) < 1);
    }
}

void what_samples_take_longer_than_they_cost_is_measured(void**) {
    Scheduler scheduler(4);  // on cores of their own, it was thought
    scheduler.add_stream(kStream, {.batch_size = kBatch});
    scheduler.update(kStream, 0, kMean);
    const Runnable heavy = sample(100, 0, 10 * kMean);
    const double before = scheduler.latest_start(kStream, Lane::kHeavy, heavy);
    for (int i = 0; i < 2000; ++i)
        scheduler.took(10 * kMean, 15 * kMean);
    const double after = scheduler.latest_start(kStream, Lane::kHeavy, heavy);
    assert_true(after / before > 1.48 && after / before < 1.5);  // due and duration are half as long again
    // Clocks that make no sense bound it on both sides.
    for (int i = 0; i < 20000; ++i)
        scheduler.took(10 * kMean, -1e18);
    assert_true(scheduler.latest_start(kStream, Lane::kHeavy, heavy) / before > 0.99);
    for (int i = 0; i < 20; ++i)
        scheduler.took(0, 1e18);
    assert_true(scheduler.latest_start(kStream, Lane::kHeavy, heavy) / before < 1.01);
}

void workers_that_come_later_count_as_if_they_had_been_there(void**) {
    Scheduler at_once(6, 2);
    Scheduler grown(1, 2);
    for (Scheduler* scheduler : {&at_once, &grown}) {
        scheduler->add_stream(kStream, {.batch_size = kBatch});
        scheduler->update(kStream, 0, kMean);
    }
    const Runnable later = sample(3, 0, 50 * kMean);
    const double alone = grown.latest_start(kStream, Lane::kHeavy, later);
    grown.set_workers(6);
    const double together = grown.latest_start(kStream, Lane::kHeavy, later);
    assert_true(std::abs(together - at_once.latest_start(kStream, Lane::kHeavy, later)) < 1);
    assert_true(together < alone);
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

// A batch of 8 at 1 ms takes 4 workers 2 ms; this consumer takes 10 ms for it, so there is time.
void what_is_due_follows_the_consumers_pace(void**) {
    Scheduler scheduler = one_stream(4);
    scheduler.add(kStream, Lane::kLight, sample(1, 0));
    scheduler.add(kStream, Lane::kHeavy, sample(10, 0, 50 * kMean));
    assert_true(scheduler.latest_start(kStream, Lane::kHeavy, sample(10, 0, 50 * kMean)) < 0);
    scheduler.taken(kStream, 0, false);
    scheduler.advance(10'000'000);
    scheduler.taken(kStream, 1, false);
    assert_true(std::abs(scheduler.step_ns(kStream) - 10e6) < 1);
    // Batch 10 is wanted at 10 + 9 x 10 ms from now, and 1.5 x 50 ms must be left.
    const double start = scheduler.latest_start(kStream, Lane::kHeavy, sample(10, 0, 50 * kMean));
    assert_true(std::abs(start - 25e6) < 1);
    assert_true(scheduler.pick()->lane == Lane::kLight);
}

void a_consumer_that_waits_shows_no_slower_pace_than_before(void**) {
    StepTime pace;
    pace.taken(1, false, 0);
    assert_true(pace.until(5, 0) == 0);
    pace.taken(2, true, 50'000'000);  // it waited: nothing is known yet
    assert_true(pace.step_ns() == 0);
    pace.taken(3, false, 60'000'000);
    assert_true(pace.step_ns() == 10e6);
    pace.taken(4, true, 160'000'000);
    assert_true(pace.step_ns() == 10e6);
    pace.taken(5, true, 165'000'000);  // it waited and was faster all the same
    assert_true(pace.step_ns() == 5e6);
    pace.taken(6, false, 3'600'165'000'000);  // an hour's pause is a few steps
    assert_true(pace.step_ns() < 10e6);
    assert_true(pace.until(7, 3'600'165'000'000) < 20e6);
}

// Two workers: one runs a light sample. While that is what it was taken for, a heavy one may have the other.
void a_light_sample_that_runs_for_several_times_its_prediction_counts_as_slow(void**) {
    for (bool overrun : {false, true}) {
        Scheduler scheduler = one_stream(2);
        scheduler.add(kStream, Lane::kLight, sample(0, 0));
        const auto running = scheduler.pick();
        scheduler.advance(overrun ? 5'000'000 : 1'000'000);
        scheduler.update(kStream, 0, kMean);
        scheduler.add(kStream, Lane::kHeavy, sample(0, 1, 100 * kMean));
        scheduler.add(kStream, Lane::kLight, sample(0, 2, 20 * kMean));
        assert_true(scheduler.pick()->lane == (overrun ? Lane::kLight : Lane::kHeavy));
        scheduler.finished(running->runnable.task, kMean);
    }
}

// What runs in the front batch and should have ended is expected to take as long again, and what comes after
// is due so much later.
void a_running_sample_that_overruns_moves_what_is_due(void**) {
    Scheduler scheduler = one_stream(4);
    scheduler.add(kStream, Lane::kLight, sample(0, 0));
    scheduler.pick();
    scheduler.update(kStream, 0, kMean);
    const double before = scheduler.latest_start(kStream, Lane::kLight, sample(3, 0));
    scheduler.advance(40'000'000);
    scheduler.update(kStream, 0, kMean);
    const double after = scheduler.latest_start(kStream, Lane::kLight, sample(3, 0));
    assert_true(std::abs(after - before - 39e6) < 1);
}

double safety_after(double error) {
    Scheduler scheduler = one_stream(4);
    for (std::uint32_t i = 0; i < 400; ++i) {
        scheduler.add(kStream, Lane::kHeavy, {i, 0, i, 50 * kMean});
        const auto pick = scheduler.pick();
        scheduler.finished(pick->runnable.task, 50 * kMean * (i % 2 == 0 ? error : 1 / error));
    }
    return scheduler.safety(kStream);
}

void the_safety_follows_the_measured_error_of_slow_samples(void**) {
    assert_true(safety_after(1) < 1.3);
    assert_true(safety_after(2) > 2 && safety_after(2) < 4);
    assert_true(safety_after(3) > safety_after(2));
    Scheduler light = one_stream(4);
    for (std::uint32_t i = 0; i < 400; ++i) {
        light.add(kStream, Lane::kLight, {i, 0, i, kMean});
        light.finished(light.pick()->runnable.task, 3 * kMean);
    }
    assert_true(light.safety(kStream) == 1.5);  // light ones say nothing about it
}

void the_horizon_is_long_only_if_some_samples_are(void**) {
    Scheduler scheduler = one_stream(8);
    for (int i = 0; i < 5000; ++i)
        scheduler.foresee(kStream, Lane::kLight, kMean);
    assert_true(scheduler.horizon(kStream) < 192);
    for (int i = 0; i < 5000; ++i)
        scheduler.foresee(kStream, i % 100 == 0 ? Lane::kHeavy : Lane::kLight,
                          i % 100 == 0 ? 100 * kMean : kMean);
    assert_true(scheduler.horizon(kStream) > 100 * 8);  // light samples that 8 workers do meanwhile
    for (int i = 0; i < 50'000; ++i)
        scheduler.foresee(kStream, Lane::kLight, kMean);
    assert_true(scheduler.horizon(kStream) < 192);  // it has been long ago
    scheduler.foresee(kStream, Lane::kHeavy, 1e9 * kMean);
    assert_true(scheduler.horizon(kStream) <= 8192);
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
        cmocka_unit_test(on_half_as_many_cores_everything_takes_twice_as_long),
        cmocka_unit_test(what_samples_take_longer_than_they_cost_is_measured),
        cmocka_unit_test(workers_that_come_later_count_as_if_they_had_been_there),
        cmocka_unit_test(a_heavy_sample_of_a_later_batch_starts_before_the_light_ones_of_that_batch),
        cmocka_unit_test(a_heavy_sample_starts_as_much_earlier_as_it_takes_longer),
        cmocka_unit_test(a_heavy_sample_that_has_time_waits_for_the_batch_that_is_due),
        cmocka_unit_test(the_front_moves_what_is_due),
        cmocka_unit_test(heavy_samples_never_hold_all_workers_while_a_light_one_is_due),
        cmocka_unit_test(a_light_sample_that_is_not_due_keeps_no_worker_from_a_heavy_one),
        cmocka_unit_test(one_worker_takes_heavy_samples_too),
        cmocka_unit_test(of_two_slow_samples_the_one_that_must_start_earlier_goes_first),
        cmocka_unit_test(what_is_due_follows_the_consumers_pace),
        cmocka_unit_test(a_consumer_that_waits_shows_no_slower_pace_than_before),
        cmocka_unit_test(a_light_sample_that_runs_for_several_times_its_prediction_counts_as_slow),
        cmocka_unit_test(a_running_sample_that_overruns_moves_what_is_due),
        cmocka_unit_test(the_safety_follows_the_measured_error_of_slow_samples),
        cmocka_unit_test(the_horizon_is_long_only_if_some_samples_are),
        cmocka_unit_test(no_worker_idles_without_a_reason_and_nothing_is_given_twice),
        cmocka_unit_test(a_stream_that_is_unknown_or_gone_has_nothing_runnable),
    };
    return cmocka_run_group_tests_name("schedule/scheduler", tests, nullptr, nullptr);
}
