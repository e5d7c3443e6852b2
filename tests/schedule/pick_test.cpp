// When a worker had better wait for light samples than begin a heavy one.
#include <optional>

#include "daemon/schedule/scheduler.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr double kMs = 1e6;

// Two workers, batches of 10, and a consumer that takes one each 20 ms: light samples of 1 ms are half of the
// work, heavy ones of 100 ms the other. Five batches lie ready and the next light samples have no memory.
class Half {
  public:
    explicit Half(std::uint32_t workers = 2) : scheduler(workers) {
        open(1);
        for (std::uint64_t step = 0; step <= 5; ++step) {
            scheduler.advance(step * 20'000'000);
            scheduler.taken(1, step, false);
        }
        scheduler.update(1, 10, 2 * kMs);
        wait_for_memory(1, 10);
    }
    void open(std::uint64_t stream) {
        scheduler.add_stream(stream, {.batch_size = 10});
        for (int i = 0; i < 10'000; ++i) {
            const bool heavy = i % 100 == 0;
            scheduler.foresee(stream, heavy ? Lane::kHeavy : Lane::kLight, heavy ? 100 * kMs : kMs);
        }
    }
    void wait_for_memory(std::uint64_t stream, std::uint64_t step) {
        const Runnable waiting{step, 0, next_++, kMs};
        scheduler.next_light(stream, &waiting);
    }
    void add(std::uint64_t stream, Lane lane, std::uint64_t step) {
        scheduler.add(stream, lane, {step, 0, next_++, lane == Lane::kHeavy ? 100 * kMs : kMs});
    }
    std::optional<Pick> pick() { return scheduler.pick(); }
    // Of another stream, whose samples have much time.
    void start_one_of_two_heavy_samples(std::uint64_t stream) {
        open(stream);
        scheduler.update(stream, 0, 100 * kMs);
        add(stream, Lane::kHeavy, 50);
        add(stream, Lane::kHeavy, 51);
        pick();
    }

    Scheduler scheduler;

  private:
    std::uint32_t next_ = 0;
};

void the_first_heavy_sample_starts(void**) {
    Half half;
    half.add(1, Lane::kHeavy, 60);
    assert_true(half.pick().has_value());
    assert_false(half.scheduler.holds());
}

void a_second_one_that_has_time_waits_while_the_first_is_young(void**) {
    Half half;
    half.add(1, Lane::kHeavy, 60);
    half.add(1, Lane::kHeavy, 61);
    half.pick();
    assert_false(half.pick().has_value());  // light samples would run dry after 100 ms; so long both are held
    assert_true(half.scheduler.holds());
    half.scheduler.advance(100'000'000 + 60'000'000);
    half.scheduler.taken(1, 8, false);
    half.scheduler.update(1, 13, 2 * kMs);
    half.wait_for_memory(1, 13);
    assert_true(half.pick().has_value());  // the first ends in 40 ms, and there is light work for 80
    assert_false(half.scheduler.holds());
}

void a_light_sample_takes_its_place(void**) {
    Half half;
    half.add(1, Lane::kHeavy, 12);
    half.pick();
    half.add(1, Lane::kHeavy, 12);  // must start within 10 ms
    half.add(1, Lane::kLight, 10);  // within 119
    assert_true(half.pick()->lane == Lane::kLight);
}

void one_that_is_late_does_not_wait(void**) {
    Half half;
    half.add(1, Lane::kHeavy, 60);
    half.pick();
    half.add(1, Lane::kHeavy, 12);
    assert_int_equal(half.pick()->runnable.step, 12);
}

void nobody_waits_where_nothing_runs(void**) {
    Half half(1);
    half.add(1, Lane::kHeavy, 60);
    assert_true(half.pick().has_value());
}

void where_other_workers_make_light_samples_more_heavy_ones_start(void**) {
    Half half(4);
    for (std::uint64_t step = 60; step < 64; ++step)
        half.add(1, Lane::kHeavy, step);
    int started = 0;
    while (half.pick())
        ++started;
    assert_int_equal(started, 3);  // one worker is as much as its light samples need
}

void a_consumer_that_has_stopped_keeps_no_worker_free(void**) {
    Half half;
    half.start_one_of_two_heavy_samples(2);
    assert_false(half.pick().has_value());  // stream 1 takes a batch each 20 ms
    half.scheduler.advance(300'000'000);    // it has taken none for 200 ms
    assert_true(half.pick().has_value());
}

void a_heavy_sample_of_one_stream_leaves_a_worker_for_another_streams_light_ones(void**) {
    Half half;
    half.start_one_of_two_heavy_samples(2);
    assert_false(half.pick().has_value());
    half.add(1, Lane::kLight, 10);
    assert_int_equal(half.pick()->stream, 1);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_first_heavy_sample_starts),
        cmocka_unit_test(a_second_one_that_has_time_waits_while_the_first_is_young),
        cmocka_unit_test(a_light_sample_takes_its_place),
        cmocka_unit_test(one_that_is_late_does_not_wait),
        cmocka_unit_test(nobody_waits_where_nothing_runs),
        cmocka_unit_test(where_other_workers_make_light_samples_more_heavy_ones_start),
        cmocka_unit_test(a_consumer_that_has_stopped_keeps_no_worker_free),
        cmocka_unit_test(a_heavy_sample_of_one_stream_leaves_a_worker_for_another_streams_light_ones),
    };
    return cmocka_run_group_tests_name("schedule/pick", tests, nullptr, nullptr);
}
