// When a sample has to start: the consumer's pace, what samples take, and how sure a prediction is.
#include <cmath>

#include "daemon/schedule/scheduler.h"
#include "tests/cmocka_cpp.h"
#include "tests/schedule/one_stream.h"

namespace sl {
namespace {

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

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(on_half_as_many_cores_everything_takes_twice_as_long),
        cmocka_unit_test(what_samples_take_longer_than_they_cost_is_measured),
        cmocka_unit_test(workers_that_come_later_count_as_if_they_had_been_there),
        cmocka_unit_test(what_is_due_follows_the_consumers_pace),
        cmocka_unit_test(a_consumer_that_waits_shows_no_slower_pace_than_before),
        cmocka_unit_test(a_light_sample_that_runs_for_several_times_its_prediction_counts_as_slow),
        cmocka_unit_test(a_running_sample_that_overruns_moves_what_is_due),
        cmocka_unit_test(the_safety_follows_the_measured_error_of_slow_samples),
        cmocka_unit_test(the_horizon_is_long_only_if_some_samples_are),
    };
    return cmocka_run_group_tests_name("schedule/due", tests, nullptr, nullptr);
}
