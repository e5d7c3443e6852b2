// The generator is Philox4x32-10 as published, and every key has numbers of its own (LDR-04).
#include "daemon/plan/random.h"

#include <set>
#include <tuple>

#include "tests/cmocka_cpp.h"
#include "tests/plan/statistics.h"

namespace sl {
namespace {

// From the file kat_vectors of Random123, the library of the paper's authors.
void philox_gives_the_published_known_answers(void**) {
    assert_true(
        (philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    constexpr std::uint32_t kOnes = 0xffffffff;
    assert_true((philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
                 PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    assert_true((philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
                 PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

void a_key_gives_the_same_numbers_each_time(void**) {
    const DrawKey key{.seed = 7, .epoch = 3, .sample_id = 11};
    Random first(key, 2);
    Random second(key, 2);
    for (int i = 0; i < 100; ++i)
        assert_int_equal(first.next(), second.next());
}

void the_mapping_from_key_to_counter_is_the_documented_one(void**) {
    const DrawKey key{.seed = 0x1111111122222222, .epoch = 0x333344444444, .sample_id = 0x5555555566666666};
    const PhiloxCounter out =
        philox4x32({0x66666666, 0x55555555, 0x44444444, 0x33330000 | (9U << 12)}, {0x22222222, 0x11111111});
    Random random(key, 9);
    assert_int_equal(random.next(), (std::uint64_t{out[1]} << 32) | out[0]);
    assert_int_equal(random.next(), (std::uint64_t{out[3]} << 32) | out[2]);
}

// Every field at its edges, all combinations: a bit that two fields shared would show as an equal number.
void LDR_04_no_two_keys_share_their_numbers(void**) {
    constexpr std::uint64_t kWords[] = {0, 1, 2, 1ULL << 31, 1ULL << 32, 1ULL << 63, UINT64_MAX};
    constexpr std::uint64_t kEpochs[] = {0, 1, 1ULL << 31, 1ULL << 32, 1ULL << 47, kEpochLimit - 1};
    std::set<std::uint64_t> seen;
    std::size_t keys = 0;
    for (const std::uint64_t seed : kWords) {
        for (const std::uint64_t id : kWords) {
            for (const std::uint64_t epoch : kEpochs) {
                for (std::uint32_t slot = 0; slot < kSlotLimit; ++slot, ++keys) {
                    seen.insert(Random({.seed = seed, .epoch = epoch, .sample_id = id}, slot).next());
                }
            }
        }
    }
    assert_int_equal(seen.size(), keys);
}

void one_key_has_eight_thousand_numbers_before_they_repeat(void**) {
    Random random({.seed = 1, .epoch = 2, .sample_id = 3}, 4);
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 8192; ++i)
        seen.insert(random.next());
    assert_int_equal(seen.size(), 8192);
}

void uniform_numbers_are_uniform_across_samples_epochs_and_seeds(void**) {
    std::vector<double> by_sample;
    std::vector<double> by_epoch;
    std::vector<double> by_seed;
    for (std::uint64_t i = 0; i < 20000; ++i) {
        by_sample.push_back(Random({.seed = 0, .epoch = 0, .sample_id = i}, 1).uniform());
        by_epoch.push_back(Random({.seed = 0, .epoch = i, .sample_id = 0}, 1).uniform());
        by_seed.push_back(Random({.seed = i, .epoch = 0, .sample_id = 0}, 1).uniform());
    }
    for (const auto* values : {&by_sample, &by_epoch, &by_seed}) {
        assert_true(statistics::kolmogorov(*values, 0, 1) < 2.7);
        assert_true(*std::ranges::min_element(*values) >= 0);
        assert_true(*std::ranges::max_element(*values) < 1);
    }
}

void numbers_below_n_are_in_range_and_equally_frequent(void**) {
    Random bits({.seed = 5, .epoch = 0, .sample_id = 0}, 0);
    assert_int_equal(bits.below(0), 0);
    assert_int_equal(bits.below(1), 0);
    for (const std::uint64_t n : {2ULL, 3ULL, 7ULL, 100ULL}) {
        std::vector<std::uint64_t> counts(n);
        for (std::uint64_t id = 0; id < 20000; ++id) {
            const std::uint64_t v = Random({.seed = 5, .epoch = n, .sample_id = id}, 0).below(n);
            assert_true(v < n);
            ++counts[v];
        }
        assert_true(statistics::chi_square_excess(counts) < 4.8);
    }
}

// With n = 3/4 of 2^64, taking a word modulo n would give the lowest third of the numbers twice as often.
void numbers_below_a_very_large_n_have_no_bias(void**) {
    constexpr std::uint64_t kN = 3ULL << 62;
    std::vector<std::uint64_t> thirds(3);
    for (std::uint64_t id = 0; id < 30000; ++id) {
        ++thirds[Random({.seed = 6, .epoch = 0, .sample_id = id}, 0).below(kN) >> 62];
    }
    assert_true(statistics::chi_square_excess(thirds) < 4.8);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_known_answers),
        cmocka_unit_test(a_key_gives_the_same_numbers_each_time),
        cmocka_unit_test(the_mapping_from_key_to_counter_is_the_documented_one),
        cmocka_unit_test(LDR_04_no_two_keys_share_their_numbers),
        cmocka_unit_test(one_key_has_eight_thousand_numbers_before_they_repeat),
        cmocka_unit_test(uniform_numbers_are_uniform_across_samples_epochs_and_seeds),
        cmocka_unit_test(numbers_below_n_are_in_range_and_equally_frequent),
        cmocka_unit_test(numbers_below_a_very_large_n_have_no_bias),
    };
    return cmocka_run_group_tests_name("random", tests, nullptr, nullptr);
}
