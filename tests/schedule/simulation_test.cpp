// One stream through the simulation: strict order with predicted starts, whatever costs, slots, workers and
// reads there are. Simulated time only: the results are the same everywhere.
#include <algorithm>
#include <set>

#include "daemon/stream/sample_slots.h"
#include "tests/cmocka_cpp.h"
#include "tests/schedule/rivals.h"
#include "tests/schedule/workloads.h"

namespace sl::sim {
namespace {

constexpr double kRare = 0.01;
constexpr double kHeavy = 100;

void predicted_starts_make_the_consumer_wait_far_less_than_plan_order(void**) {
    for (std::uint32_t seed = 1; seed <= 5; ++seed) {
        std::vector<Workload> jobs{make_workload(400, 64, kRare, kHeavy, seed)};
        jobs[0].step_ns = step_at(jobs[0], 8, 0.87);
        WindowLoader fifo(jobs[0], 5, true);
        OurLoader ours(8, jobs, {make_options(jobs[0], 1.3, seed)});
        const Outcome in_plan_order = Simulation(8, jobs, fifo).run()[0];
        const Outcome predicted = Simulation(8, jobs, ours).run()[0];
        assert_int_equal(in_plan_order.taken, 400);
        assert_int_equal(predicted.taken, 400);
        print_message("seed %u: the consumer waited %.0f ms against %.0f\n", seed, predicted.waited * 1e-6,
                      in_plan_order.waited * 1e-6);
        assert_true(predicted.waited < 0.25 * in_plan_order.waited);
    }
}

// At 95 percent of what the workers can do, one in 100 costing 100 times as much, with the daemon's memory.
void heavy_samples_that_come_close_together_cost_the_consumer_nothing(void**) {
    for (std::uint32_t workers : {2U, 4U, 8U}) {
        for (std::uint32_t seed = 1; seed <= 3; ++seed) {
            std::vector<Workload> jobs{make_workload(1000, 16, kRare, kHeavy, seed)};
            jobs[0].step_ns = step_at(jobs[0], workers, 0.95);
            OurLoader ours(workers, jobs, {make_options(jobs[0])});
            const Outcome outcome = Simulation(workers, jobs, ours).run()[0];
            const double steps = outcome.waited / jobs[0].step_ns;
            print_message("%u workers, seed %u: waited for %.1f of 1000 steps, at most %.2f batches\n",
                          workers, seed, steps, outcome.most_buffered);
            assert_true(steps < 40);
            assert_true(outcome.most_buffered <= 6);
        }
    }
}

// Down to memory for one batch, and predictions that are wrong by up to a hundred times.
struct Mix {
    std::uint32_t workers = 1;
    Workload workload;
    OurOptions options;
};

Mix random_mix(std::mt19937& random) {
    auto upto = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % (most + 1)); };
    Mix mix;
    mix.workers = 1 + upto(11);
    mix.workload = make_workload(1 + upto(30), 1 + upto(8), 0.01 * upto(60), 1 + upto(200), random());
    if (upto(1) == 1) mix.workload.step_ns = step_at(mix.workload, mix.workers, 0.1 + 0.1 * upto(20));
    mix.options = make_options(mix.workload, upto(2) == 0 ? 1 : 1 + upto(100), random());
    const std::uint32_t batch = mix.workload.batch;
    mix.options.slots = {{upto(2 * batch), upto(batch), upto(batch)}, batch};
    if (upto(3) == 0) mix.options.slots = {{0, 0, 0}, batch};
    mix.options.ring = upto(4);
    mix.options.ready = upto(1) == 1;
    mix.options.least_horizon = 1 + upto(200);
    mix.options.read_ns = upto(1) * kLightNs * upto(20);
    return mix;
}

void no_mix_of_slots_costs_and_workers_stops_it_and_every_sample_starts_once(void**) {
    std::mt19937 random(1);
    for (int trial = 0; trial < 3000; ++trial) {
        const Mix mix = random_mix(random);
        const std::vector<Workload> jobs{mix.workload};
        OurLoader loader(mix.workers, jobs, {mix.options});
        std::set<std::uint32_t> started;
        loader.on_start = [&](const Job& job, double) {
            assert_true(started.insert(job.sample).second);
            assert_true(loader.slots_held(0) <= mix.options.slots.total());
        };
        const Outcome outcome = Simulation(mix.workers, jobs, loader).run()[0];
        assert_int_equal(outcome.taken, mix.workload.batches());
        assert_int_equal(started.size(), mix.workload.costs.size());
        assert_int_equal(loader.slots_held(0), 0);
    }
}

// A worker that finds nothing although something is runnable keeps itself for light samples: slow ones alone
// are runnable, and another worker is at work.
class Watched : public OurLoader {
  public:
    using OurLoader::OurLoader;
    std::optional<Job> next(std::uint32_t worker, double now) override {
        const auto job = OurLoader::next(worker, now);
        if (job) {
            ++running_;
        } else if (scheduler().runnable(0, Lane::kMedium) + scheduler().runnable(0, Lane::kHeavy) > 0) {
            assert_true(scheduler().holds());
            assert_true(running_ > 0);
        }
        if (!job) assert_int_equal(scheduler().runnable(0, Lane::kLight), 0);
        return job;
    }
    void ended(std::uint32_t worker, const Job& job, double now) override {
        --running_;
        OurLoader::ended(worker, job, now);
    }

  private:
    int running_ = 0;
};

void no_worker_idles_without_a_reason(void**) {
    std::mt19937 random(2);
    for (int trial = 0; trial < 500; ++trial) {
        const Mix mix = random_mix(random);
        const std::vector<Workload> jobs{mix.workload};
        Watched loader(mix.workers, jobs, {mix.options});
        Simulation(mix.workers, jobs, loader).run();
    }
}

void with_equal_costs_the_order_of_starts_is_the_plans(void**) {
    for (std::uint32_t workers : {1U, 2U, 7U, 64U}) {
        for (bool ready : {false, true}) {
            std::vector<Workload> jobs{make_workload(60, 16, 0, 1, 1)};
            jobs[0].step_ns = step_at(jobs[0], workers, 0.95);
            OurOptions options = make_options(jobs[0]);
            options.ready = ready;
            OurLoader loader(workers, jobs, {options});
            std::uint32_t next = 0;
            loader.on_start = [&](const Job& job, double) { assert_int_equal(job.sample, next++); };
            assert_int_equal(Simulation(workers, jobs, loader).run()[0].taken, 60);
        }
    }
}

void samples_of_one_prediction_start_in_the_order_in_which_they_are_due(void**) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        std::vector<Workload> jobs{make_workload(100, 16, 0.1, 2 + 9 * (seed % 8), seed)};
        jobs[0].step_ns = step_at(jobs[0], 6, 0.95);
        OurLoader loader(6, jobs, {make_options(jobs[0])});
        std::map<double, std::uint32_t> last;
        loader.on_start = [&](const Job& job, double) {
            auto [it, first] = last.try_emplace(jobs[0].costs[job.sample], job.sample);
            assert_true(first || it->second < job.sample);
            it->second = job.sample;
        };
        assert_int_equal(Simulation(6, jobs, loader).run()[0].taken, 100);
    }
}

// The last sample of all is heavy. In plan order it would start when all else is done; here the others go on
// while it runs, and the run takes hardly longer than its work.
void the_longest_go_first_when_the_run_ends(void**) {
    std::vector<Workload> jobs{make_workload(100, 16, 0.02, 50, 1)};
    jobs[0].costs.back() = 50 * kLightNs;
    OurLoader ours(4, jobs, {make_options(jobs[0])});
    std::uint32_t after_the_last = 0;
    bool started = false;
    ours.on_start = [&](const Job& job, double) {
        after_the_last += started ? 1 : 0;
        started |= job.sample + 1 == jobs[0].costs.size();
    };
    const double ideal = total(jobs[0]) / 4;
    const double ended = Simulation(4, jobs, ours).run()[0].ended_at;
    print_message("%u started after the last one; %.3f of the work's time\n", after_the_last, ended / ideal);
    assert_true(after_the_last > 50);
    assert_true(ended < 1.05 * ideal);
}

// Reads that take as long as five light samples, and heavy samples among them.
void reads_are_started_so_early_that_nobody_waits_for_them(void**) {
    std::vector<Workload> jobs{make_workload(400, 32, kRare, kHeavy, 3)};
    double ended[2];
    for (bool slow : {false, true}) {
        OurOptions options = make_options(jobs[0]);
        options.read_ns = slow ? 5 * kLightNs : 0;
        OurLoader loader(8, jobs, {options});
        ended[slow ? 1 : 0] = Simulation(8, jobs, loader).run()[0].ended_at;
    }
    print_message("with slow reads %.3f of the time without\n", ended[1] / ended[0]);
    assert_true(ended[1] < 1.03 * ended[0]);
}

// One sample in two hundred is heavy and is taken for a light one: nobody could have started it in time, but
// the others go on, and a consumer that is slow enough never waits.
void a_missed_heavy_sample_holds_up_its_own_batch_only(void**) {
    std::vector<Workload> jobs{make_workload(200, 16, 0, 1, 1)};
    jobs[0].costs[1600] = 60 * kLightNs;
    jobs[0].step_ns = step_at(jobs[0], 4, 0.8);
    OurOptions options = make_options(jobs[0]);
    std::ranges::fill(options.predicted, kLightNs);
    OurLoader loader(4, jobs, {options});
    const Outcome outcome = Simulation(4, jobs, loader).run()[0];
    assert_int_equal(outcome.taken, 200);
    // It starts with its batch, which lies at most a ring and its lane ahead of the consumer, and all that
    // fits behind it is ready when it ends.
    assert_true(outcome.waited == outcome.longest_wait && outcome.longest_wait < 60 * kLightNs);
    assert_true(outcome.most_buffered > 3);
}

// `ready` gives rows to whoever is done first. How far a sample can be passed by later ones before it starts
// is bounded: as many as have memory, and a batch.
void in_ready_order_no_more_samples_pass_one_that_has_not_started_than_there_are_slots_and_a_batch(void**) {
    std::mt19937 random(5);
    double worst = 0;
    for (int trial = 0; trial < 500; ++trial) {
        Mix mix = random_mix(random);
        mix.options.ready = true;
        mix.options.read_ns = 0;
        const std::vector<Workload> jobs{mix.workload};
        OurLoader loader(mix.workers, jobs, {mix.options});
        std::set<std::uint32_t> passed;  // later samples that have started
        std::uint32_t first = 0;         // that has not
        const std::uint32_t most = mix.options.slots.total() + mix.workload.batch;
        loader.on_start = [&](const Job& job, double) {
            passed.insert(job.sample);
            while (passed.erase(first) == 1)
                ++first;
            worst = std::max(worst, static_cast<double>(passed.size()) / most);
        };
        assert_int_equal(Simulation(mix.workers, jobs, loader).run()[0].taken, mix.workload.batches());
    }
    print_message("at most %.2f of the bound\n", worst);
    assert_true(worst <= 1);
}

}  // namespace
}  // namespace sl::sim

int main() {
    using namespace sl::sim;
    const CMUnitTest tests[] = {
        cmocka_unit_test(predicted_starts_make_the_consumer_wait_far_less_than_plan_order),
        cmocka_unit_test(heavy_samples_that_come_close_together_cost_the_consumer_nothing),
        cmocka_unit_test(no_mix_of_slots_costs_and_workers_stops_it_and_every_sample_starts_once),
        cmocka_unit_test(no_worker_idles_without_a_reason),
        cmocka_unit_test(with_equal_costs_the_order_of_starts_is_the_plans),
        cmocka_unit_test(samples_of_one_prediction_start_in_the_order_in_which_they_are_due),
        cmocka_unit_test(the_longest_go_first_when_the_run_ends),
        cmocka_unit_test(reads_are_started_so_early_that_nobody_waits_for_them),
        cmocka_unit_test(a_missed_heavy_sample_holds_up_its_own_batch_only),
        cmocka_unit_test(
            in_ready_order_no_more_samples_pass_one_that_has_not_started_than_there_are_slots_and_a_batch),
    };
    return cmocka_run_group_tests_name("schedule/simulation", tests, nullptr, nullptr);
}
