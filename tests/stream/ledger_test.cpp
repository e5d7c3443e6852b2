// The ledger: an epoch in which a sample is lost, or delivered twice, does not add up, and says so.
#include "daemon/stream/ledger.h"

#include <map>
#include <string>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kSamples = 100;

Failure failure_of(std::uint64_t epoch, std::uint64_t id) {
    return {.sample_id = id,
            .path = "p" + std::to_string(id),
            .error = {SampleErrorKind::kCorrupt, "no picture", 12, 0},
            .epoch = epoch};
}

void an_epoch_delivered_whole_adds_up(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, 96, 4);
    for (std::uint64_t id = 0; id < 96; ++id)
        ledger.delivered(0, id);
    const EpochAccount& account = ledger.close_epoch(0);
    assert_true(account.planned == 96 && account.dropped == 4 && account.delivered == 96);
    assert_true(account.missing == 0 && account.repeated == 0 && account.failed == 0);
    assert_true(account.closed);
}

void a_resumed_epoch_adds_up_over_what_was_left_of_it(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(3, 40, 4, 7);
    for (std::uint64_t id = 60; id < 100; ++id)
        ledger.delivered(3, id);
    const EpochAccount& whole = ledger.close_epoch(3);
    assert_true(whole.resumed_at == 7 && whole.planned == 40 && whole.delivered == 40);
    assert_true(whole.missing == 0 && whole.repeated == 0 && whole.closed);
    ledger.plan_epoch(4, kSamples, 0);
    assert_true(ledger.accounts().back().second.resumed_at == 0);
}

void a_sample_from_before_the_resumed_batch_is_repeated_and_hides_no_missing_one(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, 40, 0, 7);
    for (std::uint64_t id = 61; id < 100; ++id)
        ledger.delivered(0, id);
    ledger.delivered_again(0);  // in place of sample 60
    const EpochAccount& account = ledger.close_epoch(0);
    assert_true(account.repeated == 1 && account.missing == 1);
}

void a_sample_that_was_never_delivered_is_missing(void**) {
    for (std::uint64_t lost = 1; lost <= 3; ++lost) {
        Ledger ledger(kSamples);
        ledger.plan_epoch(0, kSamples, 0);
        for (std::uint64_t id = lost; id < kSamples; ++id)
            ledger.delivered(0, id);
        assert_true(ledger.close_epoch(0).missing == lost);
    }
}

void a_sample_that_was_delivered_twice_is_repeated_and_hides_no_missing_one(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, kSamples, 0);
    for (std::uint64_t id = 1; id < kSamples; ++id)
        ledger.delivered(0, id);
    ledger.delivered(0, 50);  // in place of sample 0: the sum is right, the set is not
    const EpochAccount& account = ledger.close_epoch(0);
    assert_true(account.repeated == 1);
    assert_true(account.missing == 1);
}

void a_failed_sample_is_accounted_for_by_its_name(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, kSamples, 0);
    for (std::uint64_t id = 1; id < kSamples; ++id)
        ledger.delivered(0, id);
    const auto index = ledger.failed(failure_of(0, 0), true);
    ledger.set_substitute(index, 77);
    ledger.substituted(0);
    const EpochAccount& account = ledger.close_epoch(0);
    assert_true(account.failed == 1 && account.missing == 0 && account.substituted == 1);
    assert_int_equal(ledger.failures().size(), 1);
    const Failure& failure = ledger.failures().front();
    assert_true(failure.sample_id == 0 && failure.substitute == 77);
    assert_string_equal(failure.path.c_str(), "p0");
    assert_true(failure.error.kind == SampleErrorKind::kCorrupt);
}

void a_substitute_that_fails_is_named_but_takes_no_planned_place(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, kSamples, 0);
    for (std::uint64_t id = 1; id < kSamples; ++id)
        ledger.delivered(0, id);
    ledger.failed(failure_of(0, 0), true);
    ledger.failed(failure_of(0, 60), false);
    const EpochAccount& account = ledger.close_epoch(0);
    assert_true(account.failed == 1 && account.missing == 0);
    assert_true(ledger.failure_count() == 2);
}

void epochs_are_accounted_apart_while_both_are_open(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, kSamples, 0);
    ledger.plan_epoch(1, kSamples, 0);
    for (std::uint64_t id = 0; id < kSamples; ++id) {
        ledger.delivered(1, id);
        if (id != 9) ledger.delivered(0, id);
    }
    ledger.padding(1);
    assert_true(ledger.close_epoch(0).missing == 1);
    const EpochAccount& second = ledger.close_epoch(1);
    assert_true(second.missing == 0 && second.repeated == 0 && second.padding == 1);
}

void a_sample_that_the_dataset_does_not_have_counts_as_a_fault(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, kSamples, 0);
    for (std::uint64_t id = 0; id < kSamples; ++id)
        ledger.delivered(0, id);
    ledger.delivered(0, kSamples);
    ledger.delivered(0, ~std::uint64_t{0});
    assert_true(ledger.close_epoch(0).repeated == 2);
}

void a_flood_of_failures_is_counted_to_the_end_and_kept_up_to_a_bound(void**) {
    Ledger ledger(kSamples);
    ledger.plan_epoch(0, kSamples, 0);
    std::int64_t last = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i)
        last = ledger.failed(failure_of(0, i % kSamples), false);
    assert_true(ledger.failure_count() == 20'000);
    assert_true(ledger.failures().size() < 20'000);
    assert_true(last == -1);
    ledger.set_substitute(last, 5);  // there is no such entry: nothing may be written
    assert_true(ledger.failures().back().substitute == -1);
}

void ten_thousand_epochs_keep_the_latest_accounts_only(void**) {
    Ledger ledger(kSamples);
    for (std::uint64_t epoch = 0; epoch < 10'000; ++epoch) {
        ledger.plan_epoch(epoch, 1, 0);
        ledger.delivered(epoch, epoch % kSamples);
        assert_true(ledger.close_epoch(epoch).missing == 0);
    }
    const auto accounts = ledger.accounts();
    assert_true(accounts.size() <= 1001);
    assert_true(accounts.back().first == 9999 && accounts.back().second.delivered == 1);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_delivered_whole_adds_up),
        cmocka_unit_test(a_resumed_epoch_adds_up_over_what_was_left_of_it),
        cmocka_unit_test(a_sample_from_before_the_resumed_batch_is_repeated_and_hides_no_missing_one),
        cmocka_unit_test(a_sample_that_was_never_delivered_is_missing),
        cmocka_unit_test(a_sample_that_was_delivered_twice_is_repeated_and_hides_no_missing_one),
        cmocka_unit_test(a_failed_sample_is_accounted_for_by_its_name),
        cmocka_unit_test(a_substitute_that_fails_is_named_but_takes_no_planned_place),
        cmocka_unit_test(epochs_are_accounted_apart_while_both_are_open),
        cmocka_unit_test(a_sample_that_the_dataset_does_not_have_counts_as_a_fault),
        cmocka_unit_test(a_flood_of_failures_is_counted_to_the_end_and_kept_up_to_a_bound),
        cmocka_unit_test(ten_thousand_epochs_keep_the_latest_accounts_only),
    };
    return cmocka_run_group_tests_name("stream/ledger", tests, nullptr, nullptr);
}
