// The memory budget: too much is an error with the numbers needed and available, and what is given back is
// there again.
#include <cstring>
#include <optional>
#include <string>

#include "daemon/stream/memory_budget.h"
#include "shm/segment.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

MemoryBudget::Share take(MemoryBudget& budget, std::uint64_t bytes) {
    auto share = budget.reserve(bytes, "a stream");
    if (!share) fail_msg("%s", share.error().message.c_str());
    return std::move(*share);
}

void expect_in(const std::string& message, const std::string& part) {
    if (message.find(part) == std::string::npos)
        fail_msg("\"%s\" lacks \"%s\"", message.c_str(), part.c_str());
}

void too_much_is_an_error_that_names_who_needed_what_and_what_was_left(void**) {
    MemoryBudget budget(10 * kMiB);
    const auto held = take(budget, 7 * kMiB);
    auto share = budget.reserve(4 * kMiB, "stream 9");
    assert_false(share.has_value());
    assert_true(share.error().status == Status::kBudget);
    expect_in(share.error().message, "stream 9");
    expect_in(share.error().message, std::to_string(4 * kMiB));
    expect_in(share.error().message, std::to_string(3 * kMiB));
    expect_in(share.error().message, std::to_string(10 * kMiB));
    assert_true(budget.reserved() == 7 * kMiB);
}

void the_last_byte_can_be_reserved_and_not_one_more(void**) {
    MemoryBudget budget(kMiB);
    const auto most = take(budget, kMiB - 1);
    assert_false(budget.reserve(2, "x").has_value());
    const auto last = take(budget, 1);
    assert_false(budget.reserve(1, "x").has_value());
    assert_true(budget.reserve(0, "x").has_value());
}

void a_share_gives_its_bytes_back_when_it_dies(void**) {
    MemoryBudget budget(kMiB);
    {
        const auto share = take(budget, kMiB);
        assert_true(budget.reserved() == kMiB);
        assert_true(share.bytes() == kMiB);
    }
    assert_true(budget.reserved() == 0);
    assert_true(budget.reserve(kMiB, "x").has_value());
}

void a_user_may_have_so_much_and_others_have_theirs(void**) {
    MemoryBudget budget(10 * kMiB);
    auto held = budget.reserve(3 * kMiB, "stream 1", MemoryBudget::Account{7, 4 * kMiB});
    assert_true(held.has_value());
    auto more = budget.reserve(2 * kMiB, "stream 2", MemoryBudget::Account{7, 4 * kMiB});
    assert_false(more.has_value());
    assert_true(more.error().status == Status::kBudget);
    expect_in(more.error().message, "user 7");
    expect_in(more.error().message, "[limits] bytes");
    expect_in(more.error().message, std::to_string(3 * kMiB));
    expect_in(more.error().message, std::to_string(4 * kMiB));
    assert_true(budget.reserve(2 * kMiB, "stream 3", MemoryBudget::Account{8, 4 * kMiB}).has_value());
    // A limit that was made smaller since, or lifted.
    assert_false(budget.reserve(1, "stream 4", MemoryBudget::Account{7, 2 * kMiB}).has_value());
    assert_true(budget.reserve(2 * kMiB, "stream 5", MemoryBudget::Account{7, 0}).has_value());
    MemoryBudget::Share moved = std::move(*held);
    assert_true(budget.reserved_by(7) == 3 * kMiB);
    moved = MemoryBudget::Share();
    assert_true(budget.reserved_by(7) == 0 && budget.reserved() == 0);
}

void moving_a_share_neither_loses_nor_doubles_its_bytes(void**) {
    MemoryBudget budget(kMiB);
    auto share = take(budget, 1000);
    std::optional<MemoryBudget::Share> moved(std::move(share));
    assert_true(budget.reserved() == 1000);
    {
        auto other = take(budget, 500);
        *moved = std::move(other);
    }
    assert_true(budget.reserved() == 500);
    moved.reset();
    assert_true(budget.reserved() == 0);
}

void more_than_the_machine_has_is_refused_whatever_the_budget_says(void**) {
    MemoryBudget budget(~std::uint64_t{0});
    const std::uint64_t wanted = std::uint64_t{1} << 60;
    auto share = budget.reserve(wanted, "stream 9");
    assert_false(share.has_value());
    assert_true(share.error().status == Status::kBudget);
    expect_in(share.error().message, "stream 9");
    expect_in(share.error().message, std::to_string(wanted));
    expect_in(share.error().message, "the machine has only");
    assert_true(budget.reserved() == 0);
}

void the_machine_has_some_memory_but_not_a_million_terabytes(void**) {
    assert_true(available_memory() > kMiB);
    assert_true(available_memory() < std::uint64_t{1} << 60);
}

void sizes_are_described_for_people_and_to_the_byte(void**) {
    assert_string_equal(describe_bytes(0).c_str(), "0 bytes");
    assert_string_equal(describe_bytes(1023).c_str(), "1023 bytes");
    assert_string_equal(describe_bytes(1536).c_str(), "1.5 KiB (1536 bytes)");
    assert_string_equal(describe_bytes(5'000'000'000).c_str(), "4.7 GiB (5000000000 bytes)");
    expect_in(describe_bytes(~std::uint64_t{0}), "TiB (18446744073709551615 bytes)");
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(too_much_is_an_error_that_names_who_needed_what_and_what_was_left),
        cmocka_unit_test(the_last_byte_can_be_reserved_and_not_one_more),
        cmocka_unit_test(a_share_gives_its_bytes_back_when_it_dies),
        cmocka_unit_test(a_user_may_have_so_much_and_others_have_theirs),
        cmocka_unit_test(moving_a_share_neither_loses_nor_doubles_its_bytes),
        cmocka_unit_test(more_than_the_machine_has_is_refused_whatever_the_budget_says),
        cmocka_unit_test(the_machine_has_some_memory_but_not_a_million_terabytes),
        cmocka_unit_test(sizes_are_described_for_people_and_to_the_byte),
    };
    return cmocka_run_group_tests_name("stream/budget", tests, nullptr, nullptr);
}
