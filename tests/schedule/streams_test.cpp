// The scheduler between streams: equal shares of predicted work, whoever came first, whatever a sample costs.
#include <cmath>
#include <map>

#include "daemon/schedule/scheduler.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr double kMean = 1e6;

// Streams that always have something runnable, each with samples of one cost.
class Feed {
  public:
    explicit Feed(std::uint32_t workers) : scheduler(workers) {}

    void open(std::uint64_t stream, double cost, double weight = 1) {
        scheduler.add_stream(stream, {.batch_size = 8, .weight = weight});
        costs_[stream] = cost;
        actual_[stream] = cost;
        resume(stream);
    }
    void pause(std::uint64_t stream) { paused_[stream] = true; }
    void resume(std::uint64_t stream) {
        paused_[stream] = false;
        add(stream);
        add(stream);
    }
    // Picks once; the picked stream gets another sample unless it is paused.
    std::uint64_t pick() {
        auto pick = scheduler.pick();
        assert_true(pick.has_value());
        scheduler.finished(pick->runnable.task, actual_[pick->stream]);
        served[pick->stream] += costs_[pick->stream];
        if (!paused_[pick->stream]) add(pick->stream);
        return pick->stream;
    }

    // Its samples take so long, whatever is predicted.
    void really_costs(std::uint64_t stream, double cost) { actual_[stream] = cost; }

    Scheduler scheduler;
    std::map<std::uint64_t, double> served;  // as predicted

  private:
    void add(std::uint64_t stream) {
        const std::uint32_t task = next_++;
        scheduler.add(stream, Lane::kLight, {task / 8, task % 8, task, costs_[stream]});
    }
    std::map<std::uint64_t, double> costs_;
    std::map<std::uint64_t, double> actual_;
    std::map<std::uint64_t, bool> paused_;
    std::uint32_t next_ = 0;
};

void streams_get_equal_predicted_work_whatever_their_samples_cost(void**) {
    Feed feed(4);
    feed.open(1, kMean);
    feed.open(2, 7 * kMean);
    feed.open(3, 30 * kMean);
    for (int i = 0; i < 10'000; ++i) {
        feed.pick();
        // At every moment within one sample of the costliest.
        assert_true(std::abs(feed.served[1] - feed.served[2]) <= 30 * kMean);
        assert_true(std::abs(feed.served[1] - feed.served[3]) <= 30 * kMean);
    }
}

void a_newcomer_neither_starves_nor_takes_over(void**) {
    for (std::uint64_t newcomer : {0ULL, 2ULL}) {  // before and after the old one in the table
        Feed feed(4);
        feed.open(1, kMean);
        for (int i = 0; i < 100'000; ++i)
            feed.pick();
        feed.open(newcomer, kMean);
        for (int i = 0; i < 100; ++i) {
            const double old_before = feed.served[1];
            const double new_before = feed.served[newcomer];
            for (int j = 0; j < 10; ++j)
                feed.pick();
            assert_true(std::abs(feed.served[1] - old_before - 5 * kMean) <= kMean);
            assert_true(std::abs(feed.served[newcomer] - new_before - 5 * kMean) <= kMean);
        }
    }
}

void a_stream_that_was_idle_saves_up_no_claim(void**) {
    Feed feed(4);
    feed.open(1, kMean);
    feed.open(2, kMean);
    feed.pause(2);
    for (int i = 0; i < 50'000; ++i)
        feed.pick();
    const double before = feed.served[1];
    feed.resume(2);
    for (int i = 0; i < 100; ++i)
        feed.pick();
    assert_true(std::abs(feed.served[1] - before - 50 * kMean) <= kMean);
}

void a_newcomer_beside_a_stream_that_was_idle_gives_it_no_claim_either(void**) {
    Feed feed(4);
    feed.open(1, kMean);
    feed.open(2, kMean);
    feed.pause(2);
    for (int i = 0; i < 50'000; ++i)
        feed.pick();
    feed.open(3, kMean);  // must start level with stream 1, not with the idle one
    const double before = feed.served[1];
    for (int i = 0; i < 100; ++i)
        feed.pick();
    assert_true(std::abs(feed.served[1] - before - 50 * kMean) <= kMean);
}

// What an old stream has been served must not count against it while it pauses, whoever works meanwhile:
// stream 1 worked for long, paused, and finds another one at work that has been served next to nothing.
void a_stream_that_has_been_served_for_long_is_not_starved_after_a_pause(void**) {
    for (bool newcomer : {true, false}) {
        Feed feed(4);
        feed.open(1, kMean);
        if (!newcomer) {
            feed.open(2, kMean);
            feed.pause(2);
        }
        for (int i = 0; i < 50'000; ++i)
            feed.pick();
        feed.pause(1);
        while (feed.scheduler.runnable(1, Lane::kLight) > 0)
            feed.pick();
        newcomer ? feed.open(2, kMean) : feed.resume(2);
        for (int i = 0; i < 10; ++i)
            feed.pick();
        feed.resume(1);
        const double before = feed.served[1];
        for (int i = 0; i < 100; ++i)
            feed.pick();
        assert_true(std::abs(feed.served[1] - before - 50 * kMean) <= 11 * kMean);
    }
}

void a_stream_that_leaves_gives_its_share_to_the_others(void**) {
    Feed feed(4);
    feed.open(1, kMean);
    feed.open(2, kMean);
    for (int i = 0; i < 100; ++i)
        feed.pick();
    feed.scheduler.remove_stream(2);
    for (int i = 0; i < 100; ++i)
        assert_int_equal(feed.pick(), 1);
}

void shares_follow_the_weights(void**) {
    Feed feed(4);
    feed.open(1, kMean, 3);
    feed.open(2, 2 * kMean, 1);
    for (int i = 0; i < 10'000; ++i) {
        feed.pick();
        assert_true(std::abs(feed.served[1] - 3 * feed.served[2]) <= 9 * kMean);
    }
}

// Both are predicted alike, but stream 2's samples take ten times as long: it gets a tenth of the picks.
void a_share_is_what_was_used_not_what_was_predicted(void**) {
    Feed feed(4);
    feed.open(1, kMean);
    feed.open(2, kMean);
    feed.really_costs(2, 10 * kMean);
    for (int i = 0; i < 10'000; ++i)
        feed.pick();
    assert_true(std::abs(feed.served[1] - 10 * feed.served[2]) <= 20 * kMean);
}

// Stream 1's consumer takes a batch each 100 ms and five lie ready; stream 2 has nothing to spare.
class Lending {
  public:
    Lending() {
        for (std::uint64_t stream : {1, 2})
            scheduler.add_stream(stream, {.batch_size = 8});
        scheduler.taken(1, 0, false);
        scheduler.advance(100'000'000);
        scheduler.taken(1, 1, false);
        scheduler.update(1, 6, kMean);
        scheduler.update(2, 0, kMean);
        for (std::uint32_t i = 0; i < 2000; ++i) {
            scheduler.add(1, Lane::kLight, {6 + i / 8, i % 8, i, kMean});
            scheduler.add(2, Lane::kLight, {i / 8, i % 8, 10'000 + i, kMean});
        }
    }
    int picks_of(std::uint64_t stream, int of) {
        int found = 0;
        for (int i = 0; i < of; ++i) {
            const auto pick = scheduler.pick();
            scheduler.finished(pick->runnable.task, kMean);
            found += pick->stream == stream ? 1 : 0;
        }
        return found;
    }
    Scheduler scheduler{4};
};

void a_stream_with_time_to_spare_lends_to_one_without(void**) {
    Lending lending;
    assert_int_equal(lending.picks_of(2, 500), 500);
}

void a_stream_that_has_lent_gets_its_share_again_and_no_more(void**) {
    Lending lending;
    lending.picks_of(2, 500);
    lending.scheduler.advance(700'000'000);
    lending.scheduler.taken(1, 6, false);             // all that was ready
    assert_int_equal(lending.picks_of(1, 16), 8);     // one about: it does not go first for what it has lent
    assert_int_equal(lending.picks_of(2, 100), 100);  // its next batch has been started: it lends again
}

void a_stream_that_lends_still_works_when_nobody_borrows(void**) {
    Lending lending;
    lending.scheduler.remove_stream(2);
    assert_int_equal(lending.picks_of(1, 500), 500);
}

// Stream 1 is the least served and has heavy samples only; stream 2 has a light one that is due.
void heavy_samples_of_one_stream_leave_a_worker_to_a_light_one_of_another(void**) {
    Scheduler scheduler(4);
    scheduler.add_stream(1, {.batch_size = 8});
    scheduler.add_stream(2, {.batch_size = 8});
    for (std::uint32_t i = 0; i < 8; ++i)
        scheduler.add(1, Lane::kHeavy, {0, i, i, 100 * kMean});
    scheduler.add(2, Lane::kLight, {0, 0, 100, 1000 * kMean});
    scheduler.pick();
    scheduler.pick();  // stream 2's first sample was costly: from now on stream 1 is the least served
    scheduler.add(2, Lane::kLight, {0, 1, 101, kMean});
    std::uint32_t heavy = 1;
    bool light = false;
    for (int i = 0; i < 3; ++i) {
        auto pick = scheduler.pick();
        assert_true(pick.has_value());
        if (pick->lane == Lane::kHeavy) {
            ++heavy;
        } else {
            light = true;
            assert_int_equal(pick->stream, 2);
        }
    }
    assert_true(light);
    assert_int_equal(heavy, 3);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(streams_get_equal_predicted_work_whatever_their_samples_cost),
        cmocka_unit_test(a_newcomer_neither_starves_nor_takes_over),
        cmocka_unit_test(a_stream_that_was_idle_saves_up_no_claim),
        cmocka_unit_test(a_newcomer_beside_a_stream_that_was_idle_gives_it_no_claim_either),
        cmocka_unit_test(a_stream_that_has_been_served_for_long_is_not_starved_after_a_pause),
        cmocka_unit_test(a_stream_that_leaves_gives_its_share_to_the_others),
        cmocka_unit_test(shares_follow_the_weights),
        cmocka_unit_test(a_share_is_what_was_used_not_what_was_predicted),
        cmocka_unit_test(a_stream_with_time_to_spare_lends_to_one_without),
        cmocka_unit_test(a_stream_that_has_lent_gets_its_share_again_and_no_more),
        cmocka_unit_test(a_stream_that_lends_still_works_when_nobody_borrows),
        cmocka_unit_test(heavy_samples_of_one_stream_leave_a_worker_to_a_light_one_of_another),
    };
    return cmocka_run_group_tests_name("schedule/streams", tests, nullptr, nullptr);
}
