// The order of a stream of items: read as the client wrote it, and believed only if nobody can change it.
#include <cmath>
#include <limits>

#include "daemon/plan/items.h"
#include "tests/stream/item_orders.h"

namespace sl {
namespace {

void assert_order_refused(int fd, std::uint64_t count, bool has_hints, const char* message) {
    const auto order = ItemOrder::take(fd, count, has_hints);
    if (order) fail_msg("accepted, expected: %s", message);
    assert_string_equal(order.error().message.c_str(), message);
    assert_true(order.error().status == Status::kInvalidArgument);
}

void an_order_is_read_as_the_client_wrote_it(void**) {
    const auto order = order_of({5, 0, SL_SHM_NO_ITEM, 5, 900}, {1, 2, 3, 4, 10});
    assert_int_equal(order->size(), 5);
    assert_int_equal(order->item(0), 5);
    assert_int_equal(order->item(4), 900);
    assert_true(order->is_nobody(2));
    assert_false(order->is_nobody(3));
    assert_int_equal(order->items_end(), 901);
    assert_int_equal(order->nobodies(), 1);
    assert_int_equal(order->nobodies(0, 2), 0);
    assert_int_equal(order->nobodies(1, 3), 1);
    assert_int_equal(order->nobodies(3, 5), 0);
    assert_true(order->hint(4) == 10);
    assert_true(std::abs(order->mean_hint() - 4) < 1e-12);
}

void without_hints_all_items_are_alike(void**) {
    const auto order = order_of({3, 4});
    assert_true(order->hint(0) == 1 && order->hint(1) == 1 && order->mean_hint() == 1);
}

void an_order_of_nobody_ends_before_the_first_item(void**) {
    const auto order = order_of({SL_SHM_NO_ITEM, SL_SHM_NO_ITEM});
    assert_int_equal(order->items_end(), 0);
    assert_int_equal(order->nobodies(), 2);
}

void orders_differ_in_their_fingerprint_and_hints_do_not_matter_to_it(void**) {
    assert_true(order_of({1, 2, 3})->fingerprint() == order_of({1, 2, 3}, {1, 5, 2})->fingerprint());
    assert_false(order_of({1, 2, 3})->fingerprint() == order_of({1, 3, 2})->fingerprint());
    assert_false(order_of({1, 2})->fingerprint() == order_of({1, 2, 3})->fingerprint());
}

void memory_that_somebody_could_change_is_refused(void**) {
    constexpr const char* kMessage = "the items' memory is not sealed against shrinking, growing and writing";
    for (const int seals : {0, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_WRITE,
                            F_SEAL_GROW | F_SEAL_WRITE, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE}) {
        assert_order_refused(order_memory({1, 2}, {}, seals).get(), 2, false, kMessage);
    }
    int ends[2];
    assert_int_equal(::pipe(ends), 0);
    assert_order_refused(ends[0], 1, false, kMessage);
    ::close(ends[0]);
    ::close(ends[1]);
}

void memory_of_another_length_is_refused_with_both(void**) {
    const UniqueFd fd = order_memory({1, 2, 3});
    assert_order_refused(fd.get(), 2, false,
                         "the items' memory has 24 bytes, allowed: 16, as their count says");
    assert_order_refused(fd.get(), 4, false,
                         "the items' memory has 24 bytes, allowed: 32, as their count says");
    assert_order_refused(fd.get(), 3, true,
                         "the items' memory has 24 bytes, allowed: 48, as their count says");
    assert_order_refused(fd.get(), 0, false,
                         "an order of 0 items, allowed: 1 to 33554432; open a longer one as several streams");
    assert_order_refused(fd.get(), UINT64_MAX / 4, true,
                         "an order of 4611686018427387903 items, allowed: 1 to 33554432; open a longer one "
                         "as several streams");
}

void memory_that_was_never_written_is_refused_before_it_is_made(void**) {
    UniqueFd fd(::memfd_create("items", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(::ftruncate(fd.get(), 8 << 20), 0);
    assert_int_equal(::fcntl(fd.get(), F_ADD_SEALS, kAllSeals), 0);
    assert_order_refused(fd.get(), 1 << 20, false, "the items' memory has not been written as a whole");
}

void a_hint_that_is_none_is_refused_with_its_position(void**) {
    constexpr struct {
        double hint;
        const char* shown;
    } kCases[] = {{0, "0.000000"},
                  {-1, "-1.000000"},
                  {std::numeric_limits<double>::infinity(), "inf"},
                  {std::numeric_limits<double>::quiet_NaN(), "nan"}};
    for (const auto& [hint, shown] : kCases) {
        const std::string message =
            "the cost hint of position 1 is " + std::string(shown) + ", allowed: a finite number above 0";
        assert_order_refused(order_memory({1, 2}, {1, hint}).get(), 2, true, message.c_str());
    }
    const double most = std::numeric_limits<double>::max();
    assert_true(std::isfinite(order_of({1, 2, 3}, {most, most, most})->mean_hint()));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_order_is_read_as_the_client_wrote_it),
        cmocka_unit_test(without_hints_all_items_are_alike),
        cmocka_unit_test(an_order_of_nobody_ends_before_the_first_item),
        cmocka_unit_test(orders_differ_in_their_fingerprint_and_hints_do_not_matter_to_it),
        cmocka_unit_test(memory_that_somebody_could_change_is_refused),
        cmocka_unit_test(memory_of_another_length_is_refused_with_both),
        cmocka_unit_test(memory_that_was_never_written_is_refused_before_it_is_made),
        cmocka_unit_test(a_hint_that_is_none_is_refused_with_its_position),
    };
    return cmocka_run_group_tests_name("stream/item_order", tests, nullptr, nullptr);
}
