// The trace keeps the newest events in order, counts what it dropped, and trusts no worker's clock.
#include "daemon/observe/trace.h"

#include <utility>
#include <vector>

#include "daemon/observe/slowest.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

sl_shm_trace_event event(std::uint8_t kind, std::uint64_t begin, std::uint64_t end, std::uint16_t track = 0) {
    sl_shm_trace_event made{};
    made.kind = kind;
    made.begin_ns = begin;
    made.end_ns = end;
    made.track = track;
    return made;
}

std::vector<sl_shm_trace_event> all(const Trace& trace) {
    Trace::Document document = trace.document();
    assert_true(document.events.size() == document.header.count);
    return document.events;
}

void a_full_trace_keeps_the_newest_events_in_order_and_counts_the_rest(void**) {
    Trace trace(2, 1);
    constexpr std::uint64_t kMade = 200'001;
    for (std::uint64_t i = 0; i < kMade; ++i)
        trace.record(event(SL_SHM_TRACE_PUBLISH, i, i));
    const auto events = all(trace);
    assert_true(events.size() == 65'536);
    assert_true(trace.document().header.overwritten == kMade - events.size());
    for (std::size_t i = 0; i < events.size(); ++i)
        assert_true(events[i].begin_ns == kMade - events.size() + i);
}

void more_workers_have_a_longer_trace_up_to_a_bound(void**) {
    for (auto [workers, wanted] :
         {std::pair(1U, 65'536U), std::pair(4U, 131'072U), std::pair(64U, 262'144U)}) {
        Trace trace(workers, 1);
        for (std::uint64_t i = 0; i < 300'000; ++i)
            trace.record(event(SL_SHM_TRACE_OPEN, i, i));
        assert_true(all(trace).size() == wanted);
    }
}

void what_a_worker_says_of_its_times_stays_between_its_last_decode_and_now(void**) {
    struct Case {
        std::uint64_t given, said_begin, said_end, now, begin, end;
    };
    // The job was given and came back at known times; the worker says anything.
    const Case cases[] = {{100, 120, 180, 200, 120, 180},  // the truth
                          {150, 170, 260, 270, 180, 260},  // it claims time that it had claimed before
                          {300, 0, ~std::uint64_t{0}, 400, 300, 400},
                          {400, 450, 420, 500, 450, 450},   // an end before its begin
                          {500, 900, 950, 600, 600, 600}};  // the future
    Trace trace(1, 1);
    for (const Case& one : cases)
        trace.record_decode(event(SL_SHM_TRACE_DECODE, one.given, one.now), 0, one.said_begin, one.said_end);
    const auto events = all(trace);
    assert_int_equal(events.size(), 5);
    for (std::size_t i = 0; i < events.size(); ++i) {
        assert_true(events[i].begin_ns == cases[i].begin);
        assert_true(events[i].end_ns == cases[i].end);
    }
}

void decodes_of_one_worker_do_not_bound_those_of_another(void**) {
    Trace trace(2, 1);
    trace.record_decode(event(SL_SHM_TRACE_DECODE, 0, 100, 0), 0, 0, 100);
    trace.record_decode(event(SL_SHM_TRACE_DECODE, 0, 100, 1), 0, 10, 90);
    assert_true(all(trace)[1].begin_ns == 10);
    trace.record_decode(event(SL_SHM_TRACE_DECODE, 0, 100, 2), 0, 10, 90);  // there is no third
    assert_int_equal(all(trace).size(), 2);
    assert_true(trace.totals().decode_ns == 180);
}

sl_shm_trace_event of_stream(std::uint32_t stream, std::uint8_t kind, std::uint16_t track = 0) {
    sl_shm_trace_event made = event(kind, 10, 20, track);
    made.stream = stream;
    return made;
}

// Two users: 1000 has stream 1, whose crew is at place 0, and 1001 stream 2, at place 2, and guests.
Trace trace_of_two_users() {
    Trace trace(2, 1);
    trace.opened(1, 1000);
    trace.opened(2, 1001);
    trace.record_decode(of_stream(1, SL_SHM_TRACE_DECODE, 1), 0, 10, 20);
    trace.record_decode(of_stream(2, SL_SHM_TRACE_DECODE, 1), 2, 10, 20);
    trace.record_guest(of_stream(2, SL_SHM_TRACE_DECODE, 3), 10, 20);
    trace.record(of_stream(2, SL_SHM_TRACE_PUBLISH));
    trace.gone(2);
    trace.record(of_stream(3, SL_SHM_TRACE_PUBLISH));  // nobody's
    return trace;
}

void a_users_trace_has_the_own_events_only_also_of_streams_that_are_gone(void**) {
    const Trace trace = trace_of_two_users();
    assert_int_equal(all(trace).size(), 5);
    const auto one = trace.document(1000);
    assert_int_equal(one.header.count, 1);
    assert_int_equal(one.events.at(0).stream, 1);
    const auto two = trace.document(1001);
    assert_int_equal(two.header.count, 3);
    for (const auto& seen : two.events)
        assert_int_equal(seen.stream, 2);
    assert_int_equal(trace.document(7).header.count, 0);
}

void tracks_of_crews_lie_behind_each_other_and_those_of_guests_behind_all(void**) {
    const Trace trace = trace_of_two_users();
    const auto everybodys = trace.document();
    assert_int_equal(everybodys.header.workers, 6);
    assert_int_equal(everybodys.events[0].track, 1);
    assert_int_equal(everybodys.events[1].track, 2 * 2 + 1);
    assert_int_equal(everybodys.events[2].track, 6 + 3);
    const auto own = trace.document(1001);
    assert_int_equal(own.header.workers, 2);
    assert_int_equal(own.events[0].track, 1);
    assert_int_equal(own.events[1].track, 2 + 3);
}

void an_overwritten_event_takes_its_owner_with_it(void**) {
    Trace trace(2, 1);
    trace.opened(1, 1000);
    trace.opened(2, 1001);
    trace.record(of_stream(1, SL_SHM_TRACE_PUBLISH));
    for (int i = 0; i < 65'535; ++i)
        trace.record(of_stream(2, SL_SHM_TRACE_PUBLISH));
    assert_int_equal(trace.document(1000).header.count, 1);
    trace.record(of_stream(2, SL_SHM_TRACE_PUBLISH));
    assert_int_equal(trace.document(1000).header.count, 0);
    assert_int_equal(trace.document(1001).header.count, 65'536);
}

void totals_are_sums_of_lengths_by_stage(void**) {
    Trace trace(2, 1);
    trace.record(event(SL_SHM_TRACE_OPEN, 10, 15));
    trace.record(event(SL_SHM_TRACE_READ, 10, 40));
    trace.record(event(SL_SHM_TRACE_ROW, 50, 57));
    trace.record(event(SL_SHM_TRACE_WAIT, 0, 1000));
    auto decode = event(SL_SHM_TRACE_DECODE, 100, 200);
    decode.amount = 70;
    trace.record_decode(decode, 0, 110, 190);
    const StageTotals totals = trace.totals();
    assert_true(totals.reads == 2 && totals.read_ns == 35);
    assert_true(totals.rows == 1 && totals.row_ns == 7);
    assert_true(totals.decodes == 1 && totals.decode_ns == 80 && totals.decode_cpu_ns == 70);
}

void reading_is_busy_only_while_something_is_under_way(void**) {
    Trace trace(1, 1);
    trace.reads_under_way(false);
    assert_true(trace.totals().reading_ns == 0);
    trace.reads_under_way(true);
    const std::uint64_t begun = Trace::now();
    while (trace.totals().reading_ns == 0) {
    }
    trace.reads_under_way(true);
    trace.reads_under_way(false);
    const std::uint64_t busy = trace.totals().reading_ns;
    assert_true(busy > 0);
    const std::uint64_t ended = Trace::now();
    while (Trace::now() == ended) {
    }
    assert_true(trace.totals().reading_ns == busy);
    trace.reads_under_way(true);
    assert_true(trace.totals().reading_ns >= busy);
    assert_true(busy <= ended - begun + 1'000'000);
}

void the_slowest_samples_are_each_named_once_by_their_worst_time(void**) {
    Slowest slowest;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        for (std::uint64_t id = 0; id < 100; ++id)
            slowest.add({id, (id * 37 + 11) % 100 + 10 * (2 - epoch), 5.0});
    }
    const auto& samples = slowest.samples();
    assert_int_equal(samples.size(), Slowest::kKept);
    for (std::size_t i = 0; i < samples.size(); ++i) {
        assert_true(samples[i].cpu_ns == 99 - i + 20);  // the first epoch was the slowest
        assert_true((samples[i].sample_id * 37 + 11) % 100 == 99 - i);
    }
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_full_trace_keeps_the_newest_events_in_order_and_counts_the_rest),
        cmocka_unit_test(more_workers_have_a_longer_trace_up_to_a_bound),
        cmocka_unit_test(what_a_worker_says_of_its_times_stays_between_its_last_decode_and_now),
        cmocka_unit_test(decodes_of_one_worker_do_not_bound_those_of_another),
        cmocka_unit_test(a_users_trace_has_the_own_events_only_also_of_streams_that_are_gone),
        cmocka_unit_test(tracks_of_crews_lie_behind_each_other_and_those_of_guests_behind_all),
        cmocka_unit_test(an_overwritten_event_takes_its_owner_with_it),
        cmocka_unit_test(totals_are_sums_of_lengths_by_stage),
        cmocka_unit_test(reading_is_busy_only_while_something_is_under_way),
        cmocka_unit_test(the_slowest_samples_are_each_named_once_by_their_worst_time),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
