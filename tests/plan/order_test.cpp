// The order of an epoch is a permutation, a function of (seed, epoch) alone, and looks random (LDR-03).
#include "daemon/plan/order.h"

#include <chrono>
#include <cstdio>

#include "tests/cmocka_cpp.h"
#include "tests/plan/statistics.h"

namespace sl {
namespace {

std::vector<std::uint64_t> ids_of(const Order& order) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t position = 0; position < order.size(); ++position)
        ids.push_back(order.id_at(position));
    return ids;
}

void assert_permutation(const Order& order) {
    std::vector<bool> seen(order.size());
    for (std::uint64_t position = 0; position < order.size(); ++position) {
        const std::uint64_t id = order.id_at(position);
        assert_true(id < order.size());
        assert_false(seen[id]);
        seen[id] = true;
        assert_int_equal(order.position_of(id), position);
    }
}

void every_size_up_to_200_is_a_permutation_with_an_inverse(void**) {
    for (std::uint64_t n = 0; n <= 200; ++n) {
        for (std::uint64_t epoch = 0; epoch < 20; ++epoch)
            assert_permutation(Order(n, 42, epoch, true));
    }
}

void a_large_odd_size_is_a_permutation_with_an_inverse(void**) {
    assert_permutation(Order(100003, 1, 2, true));
}

void without_shuffle_position_and_id_are_equal(void**) {
    const Order order(1000, 3, 4, false);
    for (std::uint64_t i = 0; i < 1000; ++i) {
        assert_int_equal(order.id_at(i), i);
        assert_int_equal(order.position_of(i), i);
    }
}

void arguments_outside_the_epoch_come_back_as_they_are(void**) {
    const Order order(10, 3, 4, true);
    for (const std::uint64_t outside : {std::uint64_t{10}, std::uint64_t{1000}, UINT64_MAX}) {
        assert_int_equal(order.id_at(outside), outside);
        assert_int_equal(order.position_of(outside), outside);
    }
    assert_int_equal(Order(0, 1, 1, true).id_at(0), 0);
}

void the_inverse_holds_for_sizes_up_to_2_to_the_63(void**) {
    constexpr std::uint64_t kSizes[] = {999999999,        1000000000,      (1ULL << 32) - 1,
                                        (1ULL << 32) + 1, 1ULL << 40,      (1ULL << 53) + 1,
                                        (1ULL << 62) + 7, kMaxSamples - 1, kMaxSamples};
    for (const std::uint64_t n : kSizes) {
        const Order order(n, 9, 9, true);
        for (std::uint64_t i = 0; i < 2000; ++i) {
            const std::uint64_t position = i < 1000 ? i : n - 1 - (i - 1000);
            const std::uint64_t id = order.id_at(position);
            assert_true(id < n);
            assert_int_equal(order.position_of(id), position);
        }
    }
}

// The time is for a person to read; a machine under load must not fail the test.
void a_round_trip_at_a_billion_samples_is_exact(void**) {
    constexpr std::uint64_t kTrips = 200000;
    const Order order(1000000000, 1, 0, true);
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < kTrips; ++i) {
        const std::uint64_t position = i * 4999;
        wrong += order.position_of(order.id_at(position)) != position;
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    std::printf("a round trip at n = 1e9: %.0f ns\n", took.count() / kTrips);
    assert_int_equal(wrong, 0);
}

void LDR_03_epochs_and_seeds_differ_pairwise_and_repeat_exactly(void**) {
    const auto first = ids_of(Order(1000, 0, 0, true));
    assert_true(first == ids_of(Order(1000, 0, 0, true)));
    std::vector<std::vector<std::uint64_t>> orders;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
            orders.push_back(ids_of(Order(1000, seed, epoch, true)));
    }
    for (std::size_t a = 0; a < orders.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
            std::size_t equal = 0;
            for (std::size_t i = 0; i < 1000; ++i)
                equal += orders[a][i] == orders[b][i];
            assert_true(equal < 12);  // a random pair agrees in 1 place on average
        }
    }
}

// Written down once: a change here changes what every resumed stream delivers.
void the_order_of_a_known_seed_stays_what_it_is(void**) {
    const std::vector<std::uint64_t> known{9, 7, 4, 2, 8, 6, 1, 0, 5, 3};
    assert_true(ids_of(Order(10, 12345, 6, true)) == known);
    assert_int_equal(Order(1000000007, 12345, 6, true).id_at(77), 162180805);
}

void LDR_03_the_position_of_an_id_is_uniform_over_2000_epochs(void**) {
    constexpr std::uint64_t kIds[] = {0, 1, 499, 999};
    for (const std::uint64_t id : kIds) {
        std::vector<std::uint64_t> counts(50);
        for (std::uint64_t epoch = 0; epoch < 2000; ++epoch) {
            ++counts[Order(1000, 0, epoch, true).position_of(id) / 20];
        }
        assert_true(statistics::chi_square_excess(counts) < 4.8);
    }
}

void at_small_sizes_each_pair_of_places_is_equally_likely_for_each_pair_of_ids(void**) {
    for (std::uint64_t n = 2; n <= 10; ++n) {
        for (std::uint64_t other = 1; other < n; ++other) {
            std::vector<std::uint64_t> pairs(n * (n - 1));
            for (std::uint64_t epoch = 0; epoch < 20000; ++epoch) {
                const Order order(n, 17, epoch, true);
                const std::uint64_t a = order.position_of(0);
                const std::uint64_t b = order.position_of(other);
                ++pairs[a * (n - 1) + (b > a ? b - 1 : b)];
            }
            assert_true(statistics::chi_square_excess(pairs) < 4.8);
        }
    }
}

void neighbours_in_one_epoch_are_not_neighbours_by_id(void**) {
    constexpr std::uint64_t kN = 100000;
    std::vector<std::uint64_t> steps(100);
    const Order order(kN, 5, 1, true);
    for (std::uint64_t i = 0; i + 1 < kN; ++i) {
        const std::uint64_t step = (order.id_at(i + 1) + kN - order.id_at(i)) % kN;
        ++steps[step * 100 / kN];
    }
    assert_true(statistics::chi_square_excess(steps) < 4.8);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_size_up_to_200_is_a_permutation_with_an_inverse),
        cmocka_unit_test(a_large_odd_size_is_a_permutation_with_an_inverse),
        cmocka_unit_test(without_shuffle_position_and_id_are_equal),
        cmocka_unit_test(arguments_outside_the_epoch_come_back_as_they_are),
        cmocka_unit_test(the_inverse_holds_for_sizes_up_to_2_to_the_63),
        cmocka_unit_test(a_round_trip_at_a_billion_samples_is_exact),
        cmocka_unit_test(LDR_03_epochs_and_seeds_differ_pairwise_and_repeat_exactly),
        cmocka_unit_test(the_order_of_a_known_seed_stays_what_it_is),
        cmocka_unit_test(LDR_03_the_position_of_an_id_is_uniform_over_2000_epochs),
        cmocka_unit_test(at_small_sizes_each_pair_of_places_is_equally_likely_for_each_pair_of_ids),
        cmocka_unit_test(neighbours_in_one_epoch_are_not_neighbours_by_id),
    };
    return cmocka_run_group_tests_name("order", tests, nullptr, nullptr);
}
