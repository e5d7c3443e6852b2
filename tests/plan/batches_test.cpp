// Membership of batches: every sample where the policies say, every rank the same number of batches, and
// substitutes that never stand in the batch already (LDR-01, LDR-02).
#include "daemon/plan/batches.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr LastBatch kLasts[] = {LastBatch::kDrop, LastBatch::kKeep, LastBatch::kPad};
constexpr Uneven kUnevens[] = {Uneven::kPad, Uneven::kDrop, Uneven::kWrap};

Order shuffled(std::uint64_t n) {
    return {n, 11, 3, true};
}

std::string name_of_case(std::uint64_t n, const BatchRules& r) {
    return "n " + std::to_string(n) + " size " + std::to_string(r.size) + " world " +
           std::to_string(r.world_size) + " last " + std::to_string(static_cast<int>(r.last)) + " uneven " +
           std::to_string(static_cast<int>(r.uneven));
}

// All ids of one rank's valid members in order, batch after batch.
std::vector<std::uint64_t> delivered(const BatchPlan& plan) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t b = 0; b < plan.batches(); ++b) {
        for (std::uint32_t i = 0; i < plan.members(b); ++i) {
            const Member m = plan.member(b, i);
            if (m.valid) ids.push_back(m.id);
        }
    }
    return ids;
}

std::vector<std::uint64_t> first_ids(const Order& order, std::uint64_t count) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t p = 0; p < count; ++p)
        ids.push_back(order.id_at(p));
    return ids;
}

void LDR_01_drop_gives_the_floor_and_exactly_the_ids_of_the_full_batches(void**) {
    for (std::uint64_t n = 0; n <= 40; ++n) {
        for (std::uint32_t size = 1; size <= 9; ++size) {
            const auto plan = BatchPlan::make(shuffled(n), {.size = size, .last = LastBatch::kDrop});
            if (n < size) {
                assert_false(plan.has_value());
                continue;
            }
            assert_int_equal(plan->batches(), n / size);
            assert_int_equal(plan->left_out(), n % size);
            for (std::uint64_t b = 0; b < plan->batches(); ++b)
                assert_int_equal(plan->members(b), size);
            assert_true(delivered(*plan) == first_ids(shuffled(n), n / size * size));
        }
    }
}

void LDR_01_keep_gives_the_ceiling_and_the_last_batch_its_true_count(void**) {
    for (std::uint64_t n = 0; n <= 40; ++n) {
        for (std::uint32_t size = 1; size <= 9; ++size) {
            const auto plan = BatchPlan::make(shuffled(n), {.size = size, .last = LastBatch::kKeep});
            assert_int_equal(plan->batches(), (n + size - 1) / size);
            for (std::uint64_t b = 0; b < plan->batches(); ++b) {
                assert_int_equal(plan->members(b), std::min<std::uint64_t>(size, n - b * size));
            }
            assert_int_equal(plan->members(plan->batches()), 0);
            assert_true(delivered(*plan) == first_ids(shuffled(n), n));
        }
    }
}

void LDR_01_pad_gives_full_batches_whose_fillers_are_invalid_repeats_from_the_start(void**) {
    for (std::uint64_t n = 0; n <= 40; ++n) {
        for (std::uint32_t size = 1; size <= 9; ++size) {
            const auto plan = BatchPlan::make(shuffled(n), {.size = size, .last = LastBatch::kPad});
            assert_int_equal(plan->batches(), (n + size - 1) / size);
            assert_true(delivered(*plan) == first_ids(shuffled(n), n));
            for (std::uint64_t b = 0; b < plan->batches(); ++b) {
                assert_int_equal(plan->members(b), size);
                for (std::uint32_t i = 0; i < size; ++i) {
                    const std::uint64_t place = b * size + i;
                    const Member m = plan->member(b, i);
                    assert_int_equal(m.valid, place < n);
                    assert_int_equal(m.repeat, place >= n);
                    assert_int_equal(m.position, place % n);
                    assert_int_equal(m.id, shuffled(n).id_at(place % n));
                }
            }
        }
    }
}

void LDR_01_fewer_samples_than_a_dropped_batch_is_an_error_with_both_numbers(void**) {
    const auto one = BatchPlan::make(shuffled(5), {.size = 8});
    assert_string_equal(one.error().message.c_str(),
                        "5 samples cannot fill one batch of 8: use batch.last keep or pad");
    assert_true(one.error().status == Status::kSpec);
    const auto ranks = BatchPlan::make(shuffled(1), {.size = 8, .world_size = 4});
    assert_string_equal(ranks.error().message.c_str(),
                        "1 sample cannot fill one batch of 8 on each of 4 ranks: use batch.last keep or pad");
    const auto thin = BatchPlan::make(
        shuffled(3), {.size = 8, .last = LastBatch::kKeep, .world_size = 4, .uneven = Uneven::kDrop});
    assert_string_equal(thin.error().message.c_str(),
                        "3 samples cannot give each of 4 ranks one: use shard.uneven pad or wrap");
}

void rules_out_of_range_are_refused(void**) {
    const BatchRules refused[] = {{.size = 0},
                                  {.size = kMaxBatchSize + 1},
                                  {.world_size = 0},
                                  {.world_size = kMaxWorldSize + 1},
                                  {.rank = 2, .world_size = 2}};
    for (const BatchRules& rules : refused) {
        assert_true(BatchPlan::make(shuffled(100), rules).error().status == Status::kInvalidArgument);
    }
    assert_false(BatchPlan::make(Order(kMaxSamples + 1, 0, 0, true), {}).has_value());
}

// Calls check(n, plans of all ranks) for the grid of LDR-02; where there is no batch, every rank must say so.
template <class Check>
void for_each_world(Check check) {
    for (std::uint64_t n = 0; n <= 50; ++n) {
        for (std::uint32_t world = 1; world <= 8; ++world) {
            for (std::uint32_t size = 1; size <= 5; ++size) {
                for (const LastBatch last : kLasts) {
                    for (const Uneven uneven : kUnevens) {
                        BatchRules rules{
                            .size = size, .last = last, .rank = 0, .world_size = world, .uneven = uneven};
                        std::vector<BatchPlan> plans;
                        for (; rules.rank < world; ++rules.rank) {
                            auto plan = BatchPlan::make(shuffled(n), rules);
                            if (plan) plans.push_back(*plan);
                        }
                        if (!plans.empty() && plans.size() != world) {
                            fail_msg("ranks disagree: %s", name_of_case(n, rules).c_str());
                        }
                        if (!plans.empty()) check(n, plans);
                    }
                }
            }
        }
    }
}

void LDR_02_every_rank_has_the_same_batches_with_the_same_number_of_members(void**) {
    for_each_world([](std::uint64_t, const std::vector<BatchPlan>& plans) {
        for (const BatchPlan& plan : plans) {
            assert_int_equal(plan.batches(), plans[0].batches());
            assert_int_equal(plan.left_out(), plans[0].left_out());
            for (std::uint64_t b = 0; b < plan.batches(); ++b) {
                assert_int_equal(plan.members(b), plans[0].members(b));
                assert_true(plan.members(b) >= 1 && plan.members(b) <= plan.rules().size);
                const bool always_full = plan.rules().last != LastBatch::kKeep;
                if (always_full || b + 1 < plan.batches()) {
                    assert_int_equal(plan.members(b), plan.rules().size);
                }
            }
        }
    });
}

void LDR_02_over_all_ranks_each_id_is_valid_once_or_left_out_and_repeats_are_marked(void**) {
    for_each_world([](std::uint64_t n, const std::vector<BatchPlan>& plans) {
        const BatchRules& rules = plans[0].rules();
        std::vector<int> own(n);      // places that are not repeats
        std::vector<int> counted(n);  // valid places
        for (const BatchPlan& plan : plans) {
            for (std::uint64_t b = 0; b < plan.batches(); ++b) {
                for (std::uint32_t i = 0; i < plan.members(b); ++i) {
                    const Member m = plan.member(b, i);
                    assert_true(m.id < n);
                    assert_int_equal(m.id, plan.sequence().id_at(m.position));
                    own[m.id] += !m.repeat;
                    counted[m.id] += m.valid;
                    if (m.repeat && rules.uneven != Uneven::kWrap) assert_false(m.valid);
                }
            }
        }
        std::uint64_t missing = 0;
        std::uint64_t extra = 0;
        for (std::uint64_t id = 0; id < n; ++id) {
            assert_true(own[id] <= 1);
            missing += own[id] == 0;
            extra += static_cast<std::uint64_t>(counted[id] - own[id]);
        }
        assert_int_equal(missing, plans[0].left_out());
        // Evaluation, keep or pad with uneven pad: each id exactly once, nothing left out, nothing twice.
        if (rules.last != LastBatch::kDrop && rules.uneven != Uneven::kDrop) assert_int_equal(missing, 0);
        if (rules.uneven != Uneven::kWrap) assert_int_equal(extra, 0);
        assert_true(extra < plans.size());  // wrap: less than one a rank
    });
}

void LDR_02_no_policy_leaves_out_more_than_it_says(void**) {
    for_each_world([](std::uint64_t n, const std::vector<BatchPlan>& plans) {
        const BatchRules& rules = plans[0].rules();
        const std::uint64_t tail = n % (std::uint64_t{rules.size} * rules.world_size);
        if (rules.last == LastBatch::kDrop) assert_int_equal(plans[0].left_out(), tail);
        if (rules.last != LastBatch::kDrop && rules.uneven == Uneven::kDrop) {
            assert_int_equal(plans[0].left_out(), tail % rules.world_size);
        }
    });
}

void the_same_global_batches_come_out_for_any_world_size(void**) {
    for (const LastBatch last : kLasts) {
        std::vector<std::vector<std::set<std::uint64_t>>> by_world;
        for (const std::uint32_t world : {1U, 2U, 4U, 8U}) {
            std::vector<std::set<std::uint64_t>> batches;
            for (std::uint32_t rank = 0; rank < world; ++rank) {
                const auto plan = BatchPlan::make(
                    shuffled(70), {.size = 16 / world, .last = last, .rank = rank, .world_size = world});
                batches.resize(plan->batches());
                for (std::uint64_t b = 0; b < plan->batches(); ++b) {
                    for (std::uint32_t i = 0; i < plan->members(b); ++i) {
                        if (plan->member(b, i).valid) batches[b].insert(plan->member(b, i).id);
                    }
                    assert_int_equal(plan->first_position(b), b * 16);
                }
            }
            by_world.push_back(batches);
        }
        for (const auto& batches : by_world)
            assert_true(batches == by_world[0]);
    }
}

void a_substitute_is_never_in_its_global_batch_and_never_given_twice(void**) {
    for_each_world([](std::uint64_t n, const std::vector<BatchPlan>& plans) {
        for (std::uint64_t b = 0; b < plans[0].batches(); ++b) {
            std::set<std::uint64_t> taken;
            for (const BatchPlan& plan : plans) {
                for (std::uint32_t i = 0; i < plan.members(b); ++i)
                    taken.insert(plan.member(b, i).id);
            }
            for (const BatchPlan& plan : plans) {
                for (std::uint32_t i = 0; i < plan.members(b); ++i) {
                    std::uint64_t k = 0;
                    for (; const auto m = plan.substitute(b, i, k); ++k) {
                        assert_true(m->valid && m->id < n);
                        assert_int_equal(m->id, plan.sequence().id_at(m->position));
                        assert_true(taken.insert(m->id).second);
                    }
                    assert_false(plan.substitute(b, i, k + 1).has_value());
                    assert_false(plan.substitute(b, i, UINT64_MAX).has_value());
                }
            }
        }
    });
}

void with_one_rank_and_full_batches_all_other_samples_can_be_substitutes(void**) {
    const auto plan = BatchPlan::make(shuffled(23), {.size = 5});
    for (std::uint64_t b = 0; b < 4; ++b) {
        std::set<std::uint64_t> ids;
        for (std::uint32_t i = 0; i < 5; ++i) {
            for (std::uint64_t k = 0; const auto m = plan->substitute(b, i, k); ++k)
                ids.insert(m->id);
        }
        assert_int_equal(ids.size(), 23 - 5);
        assert_int_equal(plan->substitute(b, 2, 0)->position, ((b + 1) * 5 + 2) % 23);
    }
}

void a_substitute_that_has_its_own_place_in_the_epoch_is_marked_as_a_repeat(void**) {
    const auto plan = BatchPlan::make(shuffled(12), {.size = 5});  // positions 10 and 11 are left out
    assert_false(plan->substitute(1, 0, 0)->repeat);
    assert_int_equal(plan->substitute(1, 0, 0)->position, 10);
    assert_true(plan->substitute(1, 2, 0)->repeat);
    assert_int_equal(plan->substitute(1, 2, 0)->position, 0);
}

void the_largest_epoch_needs_no_memory_and_does_not_overflow(void**) {
    const BatchRules rules{.size = kMaxBatchSize,
                           .last = LastBatch::kPad,
                           .rank = kMaxWorldSize - 1,
                           .world_size = kMaxWorldSize};
    const auto plan = BatchPlan::make(Order(kMaxSamples - 1, 1, 1, false), rules);
    const std::uint64_t last = plan->batches() - 1;
    assert_int_equal(last, (kMaxSamples - 1) >> 36);
    assert_true(plan->member(last, 0).valid);
    const Member filler = plan->member(last, kMaxBatchSize - 1);
    assert_false(filler.valid);
    assert_int_equal(filler.position, 0);
    assert_int_equal(plan->substitute(last - 1, 0, 0)->position,
                     kMaxSamples - (1ULL << 36) + (kMaxWorldSize - 1ULL) * kMaxBatchSize);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(LDR_01_drop_gives_the_floor_and_exactly_the_ids_of_the_full_batches),
        cmocka_unit_test(LDR_01_keep_gives_the_ceiling_and_the_last_batch_its_true_count),
        cmocka_unit_test(LDR_01_pad_gives_full_batches_whose_fillers_are_invalid_repeats_from_the_start),
        cmocka_unit_test(LDR_01_fewer_samples_than_a_dropped_batch_is_an_error_with_both_numbers),
        cmocka_unit_test(rules_out_of_range_are_refused),
        cmocka_unit_test(LDR_02_every_rank_has_the_same_batches_with_the_same_number_of_members),
        cmocka_unit_test(LDR_02_over_all_ranks_each_id_is_valid_once_or_left_out_and_repeats_are_marked),
        cmocka_unit_test(LDR_02_no_policy_leaves_out_more_than_it_says),
        cmocka_unit_test(the_same_global_batches_come_out_for_any_world_size),
        cmocka_unit_test(a_substitute_is_never_in_its_global_batch_and_never_given_twice),
        cmocka_unit_test(with_one_rank_and_full_batches_all_other_samples_can_be_substitutes),
        cmocka_unit_test(a_substitute_that_has_its_own_place_in_the_epoch_is_marked_as_a_repeat),
        cmocka_unit_test(the_largest_epoch_needs_no_memory_and_does_not_overflow),
    };
    return cmocka_run_group_tests_name("batches", tests, nullptr, nullptr);
}
