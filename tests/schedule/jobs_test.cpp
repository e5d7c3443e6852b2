// Several streams on the same workers, in the simulation: shares, lending, and streams that come, go or stop.
#include <algorithm>
#include <map>

#include "daemon/stream/sample_slots.h"
#include "tests/cmocka_cpp.h"
#include "tests/schedule/workloads.h"

namespace sl::sim {
namespace {

std::vector<OurOptions> options_for(const std::vector<Workload>& jobs) {
    std::vector<OurOptions> options;
    for (const Workload& job : jobs)
        options.push_back(make_options(job, 1.2));
    return options;
}

std::vector<Outcome> run(std::uint32_t workers, const std::vector<Workload>& jobs, double until = kNever) {
    OurLoader loader(workers, jobs, options_for(jobs));
    return Simulation(workers, jobs, loader).run(until);
}

// One has a heavy tail, the other has none; both take all they can get.
void streams_with_different_tails_get_equal_work(void**) {
    for (std::uint32_t workers : {2U, 4U, 16U}) {
        std::vector<Workload> jobs{make_workload(300, 16, 0.01, 100, 1), make_workload(600, 16, 0, 1, 2)};
        const auto outcomes = run(workers, jobs, 2e9 / workers);
        const double mine = outcomes[0].work;
        const double other = outcomes[1].work;
        print_message("%u workers: %.0f and %.0f ms of work\n", workers, mine * 1e-6, other * 1e-6);
        assert_true(outcomes[0].taken < 300 && outcomes[1].taken < 600);  // neither has ended
        // What is in hand counts as a whole: a heavy sample or two for each worker of a half.
        assert_true(std::abs(mine - other) < 0.1 * (mine + other));
    }
}

// Stream 0 stops after ten batches. It keeps its slots, and all the workers are the other's.
void a_stream_that_stops_consuming_holds_its_own_slots_and_costs_the_others_nothing(void**) {
    std::vector<Workload> jobs{make_workload(300, 16, 0.01, 100, 1), make_workload(300, 16, 0.01, 100, 2)};
    const double alone = run(4, {jobs[1]})[0].ended_at;
    jobs[0].stops_after = 10;
    OurLoader loader(4, jobs, options_for(jobs));
    const auto outcomes = Simulation(4, jobs, loader).run();
    assert_int_equal(outcomes[0].taken, 10);
    assert_int_equal(outcomes[1].taken, 300);
    // What it started: taken, in its ring of 3 batches and in its slots.
    const std::uint32_t slots = make_options(jobs[0]).slots.total();
    assert_true(outcomes[0].started <= (10 + 3) * 16 + slots);
    assert_true(loader.slots_held(0) <= slots);
    print_message("%.0f ms beside it, %.0f alone, it had %.0f of work\n", outcomes[1].ended_at * 1e-6,
                  alone * 1e-6, outcomes[0].work * 1e-6);
    assert_true(outcomes[1].ended_at <= 1.02 * (alone + outcomes[0].work / 4));
}

// Stream 0 needs a quarter of the workers for its consumer's pace; stream 1 would take them all.
void a_stream_with_slack_lends_to_one_without_and_waits_no_more_for_it(void**) {
    std::vector<Workload> jobs{make_workload(150, 16, 0, 1, 1), make_workload(3000, 16, 0, 1, 2)};
    jobs[0].step_ns = step_at(jobs[0], 4, 0.25);
    const double until = 149 * jobs[0].step_ns;
    const auto outcomes = run(4, jobs, until);
    print_message("the slow one waited %.1f ms, the greedy one had %.0f %% of the workers\n",
                  outcomes[0].waited * 1e-6, 100 * outcomes[1].work / 4 / until);
    assert_true(outcomes[0].taken >= 148);
    assert_true(outcomes[0].longest_wait < 0.2 * jobs[0].step_ns);
    assert_true(outcomes[1].work > 0.70 * 4 * until);
}

// Streams open and close at random times; every one that stays to its end gets every batch, and what one has
// in hand when it goes does nobody harm.
void streams_that_come_and_go_at_random_lose_nothing_and_stop_nobody(void**) {
    std::mt19937 random(3);
    auto upto = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % (most + 1)); };
    for (int trial = 0; trial < 300; ++trial) {
        const std::uint32_t workers = 1 + upto(7);
        std::vector<Workload> jobs;
        for (std::uint32_t i = 0; i < 2 + upto(4); ++i) {
            Workload job =
                make_workload(5 + upto(40), 1 + upto(15), 0.01 * upto(20), 1 + upto(100), random());
            job.opens_at = upto(400) * kLightNs;
            if (upto(2) == 0) job.closes_at = job.opens_at + upto(400) * kLightNs;
            if (upto(3) == 0) job.step_ns = step_at(job, workers, 0.2 + 0.1 * upto(10));
            jobs.push_back(job);
        }
        const auto outcomes = run(workers, jobs);
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            if (jobs[i].closes_at < kNever) continue;
            assert_int_equal(outcomes[i].taken, jobs[i].batches());
            assert_int_equal(outcomes[i].started, jobs[i].costs.size());
        }
    }
}

// Heavy samples of one stream that take less than the other has ready: its consumer sees nothing of them,
// though the first takes all that is left over.
void a_heavy_tail_of_one_stream_makes_no_gap_in_another(void**) {
    std::vector<Workload> jobs{make_workload(200, 16, 0.05, 50, 1), make_workload(200, 16, 0, 1, 2)};
    jobs[1].step_ns = step_at(jobs[1], 4, 0.2);
    const auto outcomes = run(4, jobs, 150 * jobs[1].step_ns);
    assert_true(outcomes[1].taken >= 140);
    print_message("longest wait: %.2f steps\n", outcomes[1].longest_wait / jobs[1].step_ns);
    assert_true(outcomes[1].longest_wait < 0.2 * jobs[1].step_ns);
}

}  // namespace
}  // namespace sl::sim

int main() {
    using namespace sl::sim;
    const CMUnitTest tests[] = {
        cmocka_unit_test(streams_with_different_tails_get_equal_work),
        cmocka_unit_test(a_stream_that_stops_consuming_holds_its_own_slots_and_costs_the_others_nothing),
        cmocka_unit_test(a_stream_with_slack_lends_to_one_without_and_waits_no_more_for_it),
        cmocka_unit_test(streams_that_come_and_go_at_random_lose_nothing_and_stop_nobody),
        cmocka_unit_test(a_heavy_tail_of_one_stream_makes_no_gap_in_another),
    };
    return cmocka_run_group_tests_name("schedule/jobs", tests, nullptr, nullptr);
}
