// The order of a stream of items: put together from its parts, and read as the client wrote it.
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "daemon/plan/items.h"
#include "tests/stream/item_orders.h"

namespace sl {
namespace {

constexpr std::uint64_t kBytes = 8;

void assert_refused(std::optional<Result<std::shared_ptr<const ItemOrder>>> order, Status status,
                    const std::string& message) {
    assert_true(order.has_value());
    if (*order) fail_msg("accepted, expected: %s", message.c_str());
    assert_string_equal(order->error().message.c_str(), message.c_str());
    assert_true(order->error().status == status);
}

// An inbox and a budget of its user's.
struct Client {
    MemoryBudget budget{1 << 20};
    ItemInbox inbox;

    bool add(std::uint64_t count, std::uint32_t part, const std::vector<std::uint64_t>& words,
             bool has_hints = false) {
        return inbox.add(part_of(count, has_hints, part), std::as_bytes(std::span(words)),
                         [this](std::uint64_t bytes) {
                             return budget.reserve(bytes, "it", MemoryBudget::Account{7, 1 << 10});
                         });
    }
};

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

void an_order_comes_in_parts(void**) {
    Client client;
    assert_false(client.inbox.take().has_value());
    assert_true(client.add(5, 0, {1, 2}));
    assert_true(client.add(5, 1, {}));
    assert_true(client.add(5, 2, {3, 4, 5}));
    const auto order = client.inbox.take();
    assert_true(order.has_value() && order->has_value());
    assert_int_equal((**order)->size(), 5);
    assert_int_equal((**order)->item(4), 5);
    assert_false(client.inbox.take().has_value());
}

void its_bytes_are_the_users_from_its_first_part_to_its_end(void**) {
    Client client;
    assert_true(client.add(4, 0, {1, 2}));
    assert_int_equal(client.budget.reserved_by(7), 4 * kBytes);
    assert_true(client.add(4, 1, {3, 4}));
    auto order = client.inbox.take();
    assert_int_equal(client.budget.reserved_by(7), 4 * kBytes);
    order.reset();
    assert_int_equal(client.budget.reserved_by(7), 0);
    assert_true(client.add(129, 0, {1}));  // more than it may have
    assert_true(client.add(129, 1, {1}));  // passed over
    const auto refused = client.inbox.take();
    assert_true(refused.has_value() && !refused->has_value());
    assert_true(refused->error().status == Status::kBudget);
    assert_int_equal(client.budget.reserved(), 0);
}

void an_order_that_is_not_whole_or_too_long_is_refused_with_both_lengths(void**) {
    Client client;
    assert_true(client.add(3, 0, {1, 2}));
    assert_refused(client.inbox.take(), Status::kInvalidArgument,
                   "the order of items has 16 bytes, allowed: 24, as its count says");
    assert_true(client.add(3, 0, {1, 2, 3}, true));
    assert_refused(client.inbox.take(), Status::kInvalidArgument,
                   "the order of items has 24 bytes, allowed: 48, as its count says");
    assert_true(client.add(3, 0, {1, 2, 3, 4}));
    assert_refused(client.inbox.take(), Status::kInvalidArgument,
                   "the order of items has more than 24 bytes, as its count says");
    for (const std::uint64_t count : {std::uint64_t{0}, kMaxItems + 1, UINT64_MAX}) {
        assert_true(client.add(count, 0, {1}));
        assert_refused(client.inbox.take(), Status::kInvalidArgument,
                       "an order of " + std::to_string(count) +
                           " items, allowed: 1 to 33554432; open a longer one as several streams");
    }
}

void parts_that_do_not_belong_together_are_refused(void**) {
    const auto wrong = [](std::uint64_t count, std::uint32_t part, bool has_hints) {
        Client client;
        assert_true(client.add(4, 0, {1}));
        assert_true(client.add(count, part, {2}, has_hints));
        assert_true(client.add(4, 2, {3}));
        assert_refused(client.inbox.take(), Status::kProtocol,
                       "part " + std::to_string(part) + " of an order of items does not follow");
    };
    wrong(4, 2, false);
    wrong(5, 1, false);
    wrong(4, 1, true);
    Client client;
    assert_true(client.add(4, 1, {1}));
    assert_refused(client.inbox.take(), Status::kProtocol, "part 1 of an order of items does not follow");
    const std::byte odd[12] = {};
    assert_true(client.inbox.add(part_of(4, false, 0), odd, room_for_all));
    assert_refused(client.inbox.take(), Status::kProtocol, "part 0 of an order of items does not follow");
}

void one_that_was_given_up_is_begun_anew_and_a_whole_one_is_not_replaced(void**) {
    Client client;
    assert_true(client.add(4, 0, {9}));
    assert_true(client.add(2, 0, {1, 2}));
    assert_false(client.add(2, 0, {3, 4}));
    const auto order = client.inbox.take();
    assert_true(order.has_value() && order->has_value());
    assert_int_equal((**order)->item(0), 1);
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
        assert_refused(sent({1, 2}, {1, hint}), Status::kInvalidArgument, message);
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
        cmocka_unit_test(an_order_comes_in_parts),
        cmocka_unit_test(its_bytes_are_the_users_from_its_first_part_to_its_end),
        cmocka_unit_test(an_order_that_is_not_whole_or_too_long_is_refused_with_both_lengths),
        cmocka_unit_test(parts_that_do_not_belong_together_are_refused),
        cmocka_unit_test(one_that_was_given_up_is_begun_anew_and_a_whole_one_is_not_replaced),
        cmocka_unit_test(a_hint_that_is_none_is_refused_with_its_position),
    };
    return cmocka_run_group_tests_name("stream/item_order", tests, nullptr, nullptr);
}
