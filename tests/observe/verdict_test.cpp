// The verdict's arithmetic on cases whose answer is known on paper: ten seconds, numbers chosen by hand.
#include "bindings/cli/verdict.h"

#include <cmath>

#include "tests/cmocka_cpp.h"

namespace sl::cli {
namespace {

constexpr double kSeconds = 10;

bool near(double a, double b) {
    return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b));
}

struct Case {
    Snapshot before;
    Snapshot after;

    // Two workers, four cores of which two idle, one assembler thread, one stream that takes 100 samples/s
    // and never waits; stages are busy 10 percent.
    Case() {
        before.time = 50;
        after.time = 50 + kSeconds;
        before.cores = after.cores = 4;
        after.idle = 2 * kSeconds;
        before.decode.servers = after.decode.servers = 2;
        after.decode.busy = 2;
        after.decode_cpu = 2;
        after.read.busy = after.assemble.busy = after.conductor.busy = 1;
        for (StageCount* stage : {&after.read, &after.decode, &after.assemble, &after.conductor})
            stage->samples = 1000;
        after.reads = 2000;
        after.read_sum = 4;
        before.streams[1] = {.dataset = "/data"};
        after.streams[1] = {.dataset = "/data", .batches = 10, .samples = 1000};
    }
    Verdict judge() const { return sl::cli::judge(before, after); }
};

const StageLoad& stage(const Verdict& verdict, Stage wanted) {
    for (const StageLoad& load : verdict.stages) {
        if (load.stage == wanted) return load;
    }
    fail();
    return verdict.stages.front();
}

bool says(const Verdict& verdict, const char* words) {
    for (const std::string& sentence : sentences(verdict)) {
        if (sentence.find(words) != std::string::npos) return true;
    }
    return false;
}

void a_job_that_does_not_wait_is_the_bottleneck_however_busy_loading_is(void**) {
    Case made;
    made.after.decode.busy = 19.9;
    const Verdict verdict = made.judge();
    assert_true(verdict.bottleneck == Stage::kConsumer);
    assert_true(near(verdict.samples_per_s, 100) && verdict.wait_share == 0);
    assert_true(near(verdict.one_more_worker.gain, 1) && near(verdict.one_more_core.gain, 1));
    assert_true(says(verdict, "Loading is not the bottleneck"));
}

void utilisation_demand_and_bound_are_those_of_the_laws(void**) {
    const Verdict verdict = Case().judge();
    const StageLoad& decode = stage(verdict, Stage::kDecode);
    assert_true(near(decode.utilisation, 0.1));  // 2 s of 2 x 10 s
    assert_true(near(decode.demand, 0.002));     // 2 s by 1,000 samples
    assert_true(near(decode.most, 1000));        // 2 / 2 ms
    assert_true(near(decode.utilisation, verdict.samples_per_s * decode.demand / decode.servers));
    assert_true(near(verdict.loader_most, 1000));
    assert_true(near(verdict.reads_under_way, 0.4) && near(verdict.read_seconds, 0.002));
}

void busy_workers_and_a_waiting_job_are_decode_bound_and_one_more_gives_half_as_much_again(void**) {
    Case made;
    made.after.decode.busy = made.after.decode_cpu = 19;
    made.after.streams[1].waited = 8;
    const Verdict verdict = made.judge();
    assert_true(verdict.bottleneck == Stage::kDecode && verdict.saturated);
    assert_true(near(verdict.one_more_worker.samples_per_s, 3 / 0.019));  // three workers, 19 ms a sample
    assert_true(near(verdict.one_more_worker.gain, 3 / 0.019 / 100));
    assert_true(says(verdict, "One more worker gives at most 158 samples/s, 1.58 times as many."));
}

void what_a_worker_more_gives_is_bounded_by_the_job_itself(void**) {
    Case made;
    made.after.decode.busy = made.after.decode_cpu = 19;
    made.after.streams[1].waited = 1;  // its own work takes 9 s a 1,000 samples: at most 111 samples/s
    assert_true(near(made.judge().one_more_worker.samples_per_s, 1000 / 9.0));
}

void what_a_worker_more_gives_is_bounded_by_the_next_stage(void**) {
    Case made;
    made.after.decode.busy = made.after.decode_cpu = 19;
    made.after.assemble.busy = 8;  // at most 125 samples/s
    made.after.streams[1].waited = 9;
    assert_true(near(made.judge().one_more_worker.samples_per_s, 125));
}

void without_an_idle_core_a_worker_gives_nothing_and_a_core_does(void**) {
    Case made;
    made.before.cores = made.after.cores = 2;
    made.after.idle = 0;
    made.after.decode.busy = 20;
    made.after.decode_cpu = 14;  // workers wait for a core three tenths of their time
    made.after.streams[1].waited = 9;
    const Verdict verdict = made.judge();
    assert_true(near(verdict.one_more_worker.gain, 1));
    // 20 ms of CPU a sample, of all that runs: three cores pass on 150; three workers could 214.
    assert_true(near(verdict.one_more_core.samples_per_s, 150));
    assert_true(says(verdict, "Hardly a core is idle"));
}

void idle_workers_while_reads_are_under_way_are_read_bound(void**) {
    Case made;
    made.after.read.busy = 9.9;
    made.after.read_sum = 80;
    made.after.streams[1].waited = 9;
    const Verdict verdict = made.judge();
    assert_true(verdict.bottleneck == Stage::kRead);
    assert_true(near(verdict.one_more_worker.gain, 1) && near(verdict.one_more_core.gain, 1));
    assert_true(says(verdict, "8.0 at once, 40.00 ms each"));
    assert_true(says(verdict, "faster storage does, up to what the workers can decode, 1000 samples/s"));
}

void reads_that_run_ahead_of_busy_workers_are_not_blamed(void**) {
    Case made;
    made.after.read.busy = 10;
    made.after.decode.busy = 19.5;
    made.after.streams[1].waited = 5;
    assert_true(made.judge().bottleneck == Stage::kDecode);
}

void a_busy_assembler_is_blamed_though_workers_before_it_are_busy_too(void**) {
    Case made;
    made.after.assemble.busy = 9.5;
    made.after.decode.busy = 19;
    made.after.streams[1].waited = 5;
    assert_true(made.judge().bottleneck == Stage::kAssemble);
}

void a_waiting_job_and_no_busy_stage_is_said_to_be_so(void**) {
    Case made;
    made.after.decode.busy = 12;
    made.after.streams[1].waited = 3;
    const Verdict verdict = made.judge();
    assert_true(verdict.bottleneck == Stage::kDecode && !verdict.saturated);
    assert_true(says(verdict, "No stage is busy all the time"));
}

void a_job_that_waits_outside_sl_next_is_judged_by_what_it_had_left(void**) {
    Case made;
    made.after.streams[1].keeps_waits = false;
    made.after.streams[1].found_empty = 9;  // of 10 batches
    made.after.decode.busy = 19;
    assert_true(near(made.judge().wait_share, 0.9));
    made.after.streams[1].found_empty = 0;
    assert_true(made.judge().bottleneck == Stage::kConsumer);
}

void one_waiting_job_of_two_makes_loading_the_bottleneck(void**) {
    Case made;
    made.after.decode.busy = 19;
    made.after.streams[7] = {.dataset = "/other", .batches = 5, .samples = 500, .waited = 4};
    const Verdict verdict = made.judge();
    assert_true(verdict.bottleneck == Stage::kDecode);
    assert_true(near(verdict.wait_share, 0.4) && near(verdict.samples_per_s, 150));
    assert_int_equal(verdict.streams.size(), 2);
}

void a_stream_that_has_given_all_and_is_not_asked_is_not_judged(void**) {
    Case made;
    made.after.streams[1] = made.before.streams[1];
    const Verdict verdict = made.judge();
    assert_true(verdict.bottleneck == Stage::kNone);
    assert_true(says(verdict, "nothing to judge"));
}

void a_job_that_waits_and_gets_nothing_is_not_divided_by_zero(void**) {
    Case made;
    made.after = made.before;
    made.after.time += kSeconds;
    made.after.decode.busy = 20;  // one long decode each
    made.after.streams[1].waited = 10;
    const Verdict verdict = made.judge();
    assert_true(verdict.bottleneck == Stage::kDecode && verdict.samples_per_s == 0);
    assert_true(near(verdict.one_more_worker.gain, 1));
    const auto json = verdict_json(verdict);
    assert_true(json["stages"]["decode"]["at_most_samples_per_s"].is_null());
    assert_true(says(verdict, "look for longer"));
}

}  // namespace
}  // namespace sl::cli

int main() {
    using namespace sl::cli;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_does_not_wait_is_the_bottleneck_however_busy_loading_is),
        cmocka_unit_test(utilisation_demand_and_bound_are_those_of_the_laws),
        cmocka_unit_test(
            busy_workers_and_a_waiting_job_are_decode_bound_and_one_more_gives_half_as_much_again),
        cmocka_unit_test(what_a_worker_more_gives_is_bounded_by_the_job_itself),
        cmocka_unit_test(what_a_worker_more_gives_is_bounded_by_the_next_stage),
        cmocka_unit_test(without_an_idle_core_a_worker_gives_nothing_and_a_core_does),
        cmocka_unit_test(idle_workers_while_reads_are_under_way_are_read_bound),
        cmocka_unit_test(reads_that_run_ahead_of_busy_workers_are_not_blamed),
        cmocka_unit_test(a_busy_assembler_is_blamed_though_workers_before_it_are_busy_too),
        cmocka_unit_test(a_waiting_job_and_no_busy_stage_is_said_to_be_so),
        cmocka_unit_test(a_job_that_waits_outside_sl_next_is_judged_by_what_it_had_left),
        cmocka_unit_test(one_waiting_job_of_two_makes_loading_the_bottleneck),
        cmocka_unit_test(a_stream_that_has_given_all_and_is_not_asked_is_not_judged),
        cmocka_unit_test(a_job_that_waits_and_gets_nothing_is_not_divided_by_zero),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
