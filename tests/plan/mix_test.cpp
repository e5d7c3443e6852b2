// A mix has each part's share in every stretch of an epoch, no sample twice, none left out for ever, and each
// part in an order of its own; position and id find each other whatever the sizes.
#include "daemon/plan/mix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "daemon/plan/batches.h"
#include "tests/cmocka_cpp.h"
#include "tests/plan/allocations.h"

namespace sl {
namespace {

using Numbers = std::vector<std::uint64_t>;

constexpr std::uint64_t kSeed = 77;
constexpr std::uint64_t kBillion = 1'000'000'000;

struct Case {
    Numbers sizes;
    std::vector<double> weights;
    std::shared_ptr<const Mix> mix;
};

std::shared_ptr<const Mix> mix_of(const Numbers& sizes, const std::vector<double>& weights = {}) {
    std::vector<Selection> parts;
    for (const std::uint64_t size : sizes)
        parts.emplace_back(size);
    auto mix = Mix::make(std::move(parts), weights);
    if (!mix) fail_msg("%s", mix.error().message.c_str());
    return std::make_shared<const Mix>(std::move(*mix));
}

// Mixes of 1 to 6 parts of 1 to 40 samples, with weights and without; those that would leave a part out are
// not among them.
std::vector<Case> cases() {
    std::vector<Case> made;
    for (std::uint64_t number = 0; number < 1500; ++number) {
        const Order dice(1 << 20, number, 0, true);
        Case one;
        const std::uint64_t parts = 1 + dice.id_at(0) % 6;
        std::vector<Selection> selections;
        for (std::uint64_t i = 0; i < parts; ++i) {
            one.sizes.push_back(1 + dice.id_at(1 + i) % 40);
            selections.emplace_back(one.sizes.back());
            if (number % 3 > 0) one.weights.push_back(0.25 * static_cast<double>(1 + dice.id_at(9 + i) % 12));
        }
        auto mix = Mix::make(std::move(selections), one.weights);
        if (!mix) continue;
        one.mix = std::make_shared<const Mix>(std::move(*mix));
        made.push_back(std::move(one));
    }
    assert_true(made.size() > 1200);
    return made;
}

Numbers epoch_of(const Case& one, std::uint64_t epoch, bool shuffle = true, std::uint64_t seed = kSeed) {
    const MixOrder order(one.mix, seed, epoch, shuffle);
    Numbers ids;
    for (std::uint64_t position = 0; position < order.size(); ++position)
        ids.push_back(order.id_at(position));
    return ids;
}

// What of an epoch is a part's, as its own ids.
Numbers of_part(const Case& one, const Numbers& ids, std::size_t part) {
    const std::uint64_t first = one.mix->parts()[part].first_id;
    Numbers own;
    for (const std::uint64_t id : ids) {
        if (id >= first && id < first + one.sizes[part]) own.push_back(id - first);
    }
    return own;
}

void an_epoch_has_each_part_in_proportion_to_its_weight_and_no_sample_twice(void**) {
    for (const Case& one : cases()) {
        std::vector<double> weights = one.weights;
        if (weights.empty()) weights.assign(one.sizes.begin(), one.sizes.end());
        double rounds = HUGE_VAL;  // samples for each unit of weight, where the scarcest part is used up
        for (std::size_t i = 0; i < weights.size(); ++i)
            rounds = std::min(rounds, static_cast<double>(one.sizes[i]) / weights[i]);
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            const Numbers ids = epoch_of(one, epoch);
            assert_int_equal(std::set(ids.begin(), ids.end()).size(), ids.size());
            bool used_up = false;
            std::size_t total = 0;
            for (std::size_t i = 0; i < weights.size(); ++i) {
                const std::size_t own = of_part(one, ids, i).size();
                assert_true(std::abs(static_cast<double>(own) - rounds * weights[i]) < 0.5 + 1e-9);
                used_up |= own == one.sizes[i];
                total += own;
            }
            assert_true(used_up && total == ids.size());
        }
    }
}

void without_weights_each_sample_of_each_part_comes_once_an_epoch(void**) {
    const Case one{{7, 40, 1}, {}, mix_of({7, 40, 1})};
    Numbers ids = epoch_of(one, 5);
    std::ranges::sort(ids);
    Numbers all(48);
    std::iota(all.begin(), all.end(), 0);
    assert_true(ids == all);
    // As do weights that say the same.
    const Case weighted{{7, 40, 1}, {0.7, 4.0, 0.1}, mix_of({7, 40, 1}, {0.7, 4.0, 0.1})};
    assert_true(epoch_of(weighted, 5) == epoch_of(one, 5));
}

// Of the first P positions each of k parts has its share to within (1 + 1 + 1/2 + ... + 1/(k - 2)) / 2.
void every_stretch_of_an_epoch_has_each_parts_share_to_within_the_bound(void**) {
    std::array<double, 7> widest{};
    for (const Case& one : cases()) {
        const auto parts = one.mix->parts();
        const Numbers ids = epoch_of(one, 1);
        Numbers had(parts.size(), 0);
        for (std::size_t taken = 1; taken <= ids.size(); ++taken) {
            ++had[one.mix->part_of(ids[taken - 1])];
            for (std::size_t i = 0; i < parts.size(); ++i) {
                const double share = static_cast<double>(taken) * static_cast<double>(parts[i].count) /
                                     static_cast<double>(ids.size());
                double& most = widest[parts.size()];
                most = std::max(most, std::abs(static_cast<double>(had[i]) - share));
            }
        }
    }
    double bound = 0.5;
    for (std::size_t k = 2; k < widest.size(); ++k) {
        assert_true(widest[k] < bound + 1e-9);
        assert_true(widest[k] > 0.45);
        bound += 0.5 / static_cast<double>(k - 1);
    }
}

// So that `batch.last` "drop", which leaves out the end of an epoch, does not always leave out the same
// parts.
void a_part_of_few_samples_has_them_in_the_middle_of_its_stretches(void**) {
    const Case one{{100, 1, 2}, {}, mix_of({100, 1, 2})};
    const Numbers ids = epoch_of(one, 0);
    const auto single = std::ranges::find(ids, 100) - ids.begin();
    assert_true(single > 30 && single < 70);
    const auto pair = std::ranges::find_if(ids, [](std::uint64_t id) { return id > 100; }) - ids.begin();
    assert_true(pair > 15 && pair < 40);
}

void position_and_id_find_each_other_and_ids_that_do_not_come_find_nothing(void**) {
    for (const Case& one : cases()) {
        for (const std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{7}, UINT64_MAX}) {
            const MixOrder order(one.mix, kSeed, epoch, true);
            std::set<std::uint64_t> here;
            for (std::uint64_t position = 0; position < order.size(); ++position) {
                const std::uint64_t id = order.id_at(position);
                assert_int_equal(order.position_of(id).value_or(UINT64_MAX), position);
                const Mix::Place place = one.mix->place_at(position);
                assert_int_equal(one.mix->position_of(place), position);
                here.insert(id);
            }
            const std::uint64_t all = std::reduce(one.sizes.begin(), one.sizes.end());
            for (std::uint64_t id = 0; id < all + 3; ++id)
                assert_int_equal(order.position_of(id).has_value(), here.contains(id));
        }
    }
}

void every_sample_of_a_part_has_come_after_as_many_epochs_as_its_share_goes_into_it(void**) {
    std::uint64_t windows = 0;
    for (const Case& one : cases()) {
        for (std::size_t i = 0; i < one.sizes.size(); ++i) {
            const std::uint64_t count = one.mix->parts()[i].count;
            if (count == one.sizes[i]) continue;
            const std::uint64_t epochs = (one.sizes[i] + count - 1) / count;
            for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}}) {
                std::set<std::uint64_t> seen;
                for (std::uint64_t epoch = first; epoch < first + epochs; ++epoch) {
                    for (const std::uint64_t id : of_part(one, epoch_of(one, epoch), i))
                        seen.insert(id);
                }
                assert_int_equal(seen.size(), one.sizes[i]);
            }
            ++windows;
        }
    }
    assert_true(windows > 1000);
}

void a_part_that_gives_all_it_has_comes_in_the_order_it_has_alone_with_its_own_seed(void**) {
    for (const Case& one : cases()) {
        const Numbers ids = epoch_of(one, 3);
        for (std::size_t i = 0; i < one.sizes.size(); ++i) {
            if (one.mix->parts()[i].count < one.sizes[i]) continue;
            const Order alone(one.sizes[i], kSeed + i, 3, true);
            Numbers expected;
            for (std::uint64_t position = 0; position < alone.size(); ++position)
                expected.push_back(alone.id_at(position));
            assert_true(of_part(one, ids, i) == expected);
        }
    }
    const Case pair{{30, 30}, {}, mix_of({30, 30})};
    const Numbers ids = epoch_of(pair, 0, true, UINT64_MAX);  // seeds go round
    assert_true(of_part(pair, ids, 0) != of_part(pair, ids, 1));
}

void without_shuffle_each_part_keeps_the_order_of_its_files_and_goes_on_in_the_next_epoch(void**) {
    for (const Case& one : cases()) {
        for (std::size_t i = 0; i < one.sizes.size(); ++i) {
            std::uint64_t next = 0;
            for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
                for (const std::uint64_t id : of_part(one, epoch_of(one, epoch, false), i))
                    assert_int_equal(id, next++ % one.sizes[i]);
            }
        }
    }
}

void an_epoch_is_shuffled_anew_and_the_same_in_every_run(void**) {
    const Numbers sizes{100, 300, 50};
    const std::vector<double> weights{1, 1, 1};
    const Case one{sizes, weights, mix_of(sizes, weights)};
    const Case again{sizes, weights, mix_of(sizes, weights)};
    std::set<Numbers> epochs;
    for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
        epochs.insert(epoch_of(one, epoch));
        assert_true(epoch_of(one, epoch) == epoch_of(again, epoch));
    }
    assert_int_equal(epochs.size(), 50);
    // Written down once: whoever changes it changes what saved positions go on with (kOrderVersion).
    const Case small{{3, 8}, {1, 1}, mix_of({3, 8}, {1, 1})};
    const Numbers known{1, 5, 0, 9, 2, 10, 0, 7, 2, 8, 1, 3};
    Numbers got = epoch_of(small, 0);
    const Numbers second = epoch_of(small, 1);
    got.insert(got.end(), second.begin(), second.end());
    assert_true(got == known);
}

void selections_are_mixed_by_what_they_select_and_give_the_ids_of_the_whole(void**) {
    std::vector<Selection> parts{*Selection::of_ids(10, {1, 4, 9}), *Selection::of_fraction(20, 0.3)};
    auto mix = Mix::make(std::move(parts), {});
    const auto shared = std::make_shared<const Mix>(std::move(*mix));
    assert_int_equal(shared->size(), 9);
    const MixOrder order(shared, 0, 0, false);
    Numbers of_first;
    for (std::uint64_t position = 0; position < 9; ++position) {
        const std::uint64_t id = order.id_at(position);
        assert_true(id < 30);
        assert_int_equal(*order.position_of(id), position);
        if (id < 10) of_first.push_back(id);
    }
    assert_true((of_first == Numbers{1, 4, 9}));
    assert_false(order.position_of(2).has_value());
}

void billions_of_samples_take_no_memory_and_do_not_overflow(void**) {
    const Numbers sizes{kBillion, 3 * kBillion, kBillion / 7, 40 * kBillion};
    const auto mix = mix_of(sizes, {3, 2, 1, 1.5});
    const std::shared_ptr<const MixOrder> order = std::make_shared<const MixOrder>(mix, 1, UINT64_MAX, true);
    const auto plan = BatchPlan::make(Sequence(order), {.size = 64, .rank = 3, .world_size = 8});
    std::uint64_t wrong = 0;
    const std::uint64_t before = allocations::count();
    for (std::uint64_t i = 0; i < 20000; ++i) {
        const std::uint64_t position = i * 49999 % order->size();
        wrong += *order->position_of(order->id_at(position)) != position;
        wrong += plan->member(i, 5).position != i * 512 + 3 * 64 + 5;
        wrong += plan->member(i, 5).id != order->id_at(plan->member(i, 5).position);
    }
    assert_int_equal(allocations::count(), before);
    assert_int_equal(wrong, 0);
    assert_true(sizeof(BatchPlan) < 512);

    constexpr std::uint64_t kHuge = 1ULL << 61;
    const MixOrder largest(mix_of({kHuge, kHuge - 1, kHuge, kHuge + 1}, {1, 1, 0.5, 1}), 1, UINT64_MAX, true);
    for (const std::uint64_t position : {std::uint64_t{0}, kHuge, largest.size() / 3, largest.size() - 1})
        assert_int_equal(*largest.position_of(largest.id_at(position)), position);
}

void a_part_that_would_give_nothing_is_refused_with_the_numbers(void**) {
    std::vector<Selection> parts{Selection(40), Selection(90)};
    const auto refused = Mix::make(parts, {1, 0.0078125});
    assert_string_equal(refused.error().message.c_str(),
                        "dataset.weights[1] is 0.0078125, which is 0.3125 samples an epoch, beside all 40 of "
                        "dataset.parts[0] with weight 1; allowed: at least half a sample");
    assert_true(refused.error().status == Status::kSpec);
    assert_true(Mix::make(parts, {1, 0.0125}).has_value());
    assert_false(Mix::make(parts, {1e308, 1e-308}).has_value());
    assert_int_equal(Mix::make(parts, {1e308, 1e308})->size(), 80);
    assert_int_equal(Mix::make(parts, {5e-324, 5e-324})->size(), 80);
    std::vector<Selection> many{Selection(kMaxSamples), Selection(1)};
    assert_string_equal(Mix::make(many, {}).error().message.c_str(),
                        "dataset.parts have more than 2^63 samples");
}

void a_fingerprint_tells_parts_their_order_and_their_counts_apart(void**) {
    const Numbers prints{11, 22};
    const Numbers swapped{22, 11};
    std::set<std::uint64_t> all{mix_of({10, 10})->fingerprint(prints), mix_of({10, 10})->fingerprint(swapped),
                                mix_of({10, 10}, {1, 0.5})->fingerprint(prints),
                                mix_of({10, 10}, {0.5, 1})->fingerprint(prints),
                                mix_of({10})->fingerprint(Numbers{11})};
    assert_int_equal(all.size(), 5);
    assert_int_equal(mix_of({10, 10}, {1, 0.5})->fingerprint(prints),
                     mix_of({10, 10}, {4, 2})->fingerprint(prints));
    // Written down once: saved positions have it.
    assert_true(mix_of({10, 10}, {1, 0.5})->fingerprint(prints) == 0x61aef3ba8a6ebaf5U);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_has_each_part_in_proportion_to_its_weight_and_no_sample_twice),
        cmocka_unit_test(without_weights_each_sample_of_each_part_comes_once_an_epoch),
        cmocka_unit_test(every_stretch_of_an_epoch_has_each_parts_share_to_within_the_bound),
        cmocka_unit_test(a_part_of_few_samples_has_them_in_the_middle_of_its_stretches),
        cmocka_unit_test(position_and_id_find_each_other_and_ids_that_do_not_come_find_nothing),
        cmocka_unit_test(every_sample_of_a_part_has_come_after_as_many_epochs_as_its_share_goes_into_it),
        cmocka_unit_test(a_part_that_gives_all_it_has_comes_in_the_order_it_has_alone_with_its_own_seed),
        cmocka_unit_test(
            without_shuffle_each_part_keeps_the_order_of_its_files_and_goes_on_in_the_next_epoch),
        cmocka_unit_test(an_epoch_is_shuffled_anew_and_the_same_in_every_run),
        cmocka_unit_test(selections_are_mixed_by_what_they_select_and_give_the_ids_of_the_whole),
        cmocka_unit_test(billions_of_samples_take_no_memory_and_do_not_overflow),
        cmocka_unit_test(a_part_that_would_give_nothing_is_refused_with_the_numbers),
        cmocka_unit_test(a_fingerprint_tells_parts_their_order_and_their_counts_apart),
    };
    return cmocka_run_group_tests_name("mix", tests, nullptr, nullptr);
}
