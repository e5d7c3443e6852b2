// What the plan promises for every small case, and what it costs for the largest: failing samples anywhere
// move nobody, no order comes twice, no memory is taken, and every process computes the same (LDR-02,
// LDR-03).
#include <unistd.h>

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "daemon/plan/batches.h"
#include "daemon/plan/subset.h"
#include "tests/cmocka_cpp.h"
#include "tests/plan/allocations.h"

namespace sl {
namespace {

constexpr LastBatch kLasts[] = {LastBatch::kDrop, LastBatch::kKeep, LastBatch::kPad};
constexpr Uneven kUnevens[] = {Uneven::kPad, Uneven::kDrop, Uneven::kWrap};
constexpr std::uint64_t kBillion = 1'000'000'000;

struct Row {
    Member planned;
    std::optional<std::uint64_t> id;  // of what is delivered; none: a placeholder
};

// The rows of one rank's batch under `refill`, where the ids with bad[id] cannot be read.
std::vector<Row> refilled(const BatchPlan& plan, std::uint64_t batch, const std::vector<bool>& bad) {
    std::vector<Row> rows;
    for (std::uint32_t i = 0; i < plan.members(batch); ++i) {
        Row row{plan.member(batch, i), {}};
        std::optional<Member> next = row.planned;
        for (std::uint64_t k = 0; next && bad[next->id]; ++k)
            next = plan.substitute(batch, i, k);
        if (next) row.id = next->id;
        rows.push_back(row);
    }
    return rows;
}

void check_refilled_epoch(const std::vector<BatchPlan>& plans, const std::vector<bool>& bad) {
    const std::uint64_t n = bad.size();
    std::vector<int> delivered(n);  // as themselves, in their own place
    std::vector<int> named(n);      // failing in their own place
    for (std::uint64_t b = 0; b < plans[0].batches(); ++b) {
        std::set<std::uint64_t> in_batch;
        for (const BatchPlan& plan : plans) {
            assert_int_equal(plan.members(b), plans[0].members(b));
            for (const Row& row : refilled(plan, b, bad)) {
                if (!row.planned.repeat) ++(bad[row.planned.id] ? named : delivered)[row.planned.id];
                if (!row.id) continue;
                assert_false(bad[*row.id]);
                // Members and substitutes of a global batch are all different; only a planned repeat is not.
                if (!row.planned.repeat) assert_true(in_batch.insert(*row.id).second);
            }
        }
    }
    std::uint64_t left_out = 0;
    for (std::uint64_t id = 0; id < n; ++id) {
        assert_true(delivered[id] + named[id] <= 1);
        left_out += delivered[id] + named[id] == 0 ? 1 : 0;
    }
    assert_int_equal(left_out, plans[0].left_out());
}

void LDR_02_failing_samples_anywhere_change_no_count_and_no_other_samples_place(void**) {
    std::uint64_t cases = 0;
    for (std::uint64_t n = 1; n <= 50; ++n) {
        for (std::uint32_t world = 1; world <= 8; ++world) {
            for (std::uint32_t size = 1; size <= 5; ++size) {
                for (const LastBatch last : kLasts) {
                    const Uneven uneven = kUnevens[(n + world + size) % 3];
                    std::vector<BatchPlan> plans;
                    for (std::uint32_t rank = 0; rank < world; ++rank) {
                        auto plan = BatchPlan::make(Order(n, 5, n, true), {.size = size,
                                                                           .last = last,
                                                                           .rank = rank,
                                                                           .world_size = world,
                                                                           .uneven = uneven});
                        if (plan) plans.push_back(*plan);
                    }
                    if (plans.empty()) continue;
                    std::vector<bool> bad(n);
                    const Order dice(n, n, world, true);
                    const std::uint64_t failing = (n * world * size) % (n + 1);  // none to all of them
                    for (std::uint64_t i = 0; i < failing; ++i)
                        bad[dice.id_at(i)] = true;
                    check_refilled_epoch(plans, bad);
                    ++cases;
                }
            }
        }
    }
    assert_true(cases > 4000);
}

void LDR_03_no_order_comes_twice_in_2000_epochs(void**) {
    std::set<std::vector<std::uint16_t>> orders;
    for (std::uint64_t epoch = 0; epoch < 2000; ++epoch) {
        const Order order(1000, 0, epoch, true);
        std::vector<std::uint16_t> ids;
        for (std::uint64_t position = 0; position < 1000; ++position)
            ids.push_back(static_cast<std::uint16_t>(order.id_at(position)));
        orders.insert(std::move(ids));
    }
    assert_int_equal(orders.size(), 2000);
}

void a_billion_samples_take_no_memory(void**) {
    const auto part = Selection::of_fraction(kBillion, 0.3);
    assert_true(part.has_value());
    const std::uint64_t before = allocations::count();
    const Order order(kBillion, 1, 7, true);
    const auto plan = BatchPlan::make(order, {.size = 64, .rank = 3, .world_size = 8});
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < 20000; ++i) {
        const std::uint64_t position = i * 49999;
        wrong += order.position_of(order.id_at(position)) != position;
        const std::uint64_t batch = i * 97;
        const Member member = plan->member(batch, 5);
        wrong += member.position != batch * 512 + 3 * 64 + 5;
        wrong += plan->substitute(batch, 5, 0)->position != (member.position + 512) % kBillion;
        const std::uint64_t index = i * 14999;
        wrong += part->index_of(part->id_at(index)) != index;
    }
    assert_int_equal(allocations::count(), before);
    assert_int_equal(wrong, 0);
    assert_true(sizeof(BatchPlan) < 512);
    const auto* volatile proof = new int(1);  // the counter counts
    delete proof;
    assert_int_equal(allocations::count(), before + 1);
}

// What each rank of a few worlds plans, as numbers. Written by this program when it is started with a word.
std::string plans_of_all_ranks() {
    std::string text;
    for (const std::uint32_t world : {1U, 4U}) {
        for (std::uint32_t rank = 0; rank < world; ++rank) {
            const auto plan = BatchPlan::make(Order(1000, 12345, 6, true),
                                              {.size = 64 / world, .rank = rank, .world_size = world});
            for (std::uint64_t b = 0; b < plan->batches(); ++b) {
                for (std::uint32_t i = 0; i < plan->members(b); ++i)
                    text += std::to_string(plan->member(b, i).id) + " ";
            }
        }
    }
    return text;
}

void LDR_03_a_new_process_and_every_rank_have_the_same_order(void**) {
    std::array<char, 4096> self{};
    const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
    assert_true(length > 0);
    std::FILE* other = ::popen(("'" + std::string(self.data()) + "' print").c_str(), "r");
    assert_non_null(other);
    std::string text;
    std::array<char, 4096> buffer;
    for (std::size_t got = 1; got > 0;) {
        got = std::fread(buffer.data(), 1, buffer.size(), other);
        text.append(buffer.data(), got);
    }
    assert_int_equal(::pclose(other), 0);
    const std::string ours = plans_of_all_ranks();
    assert_true(ours.size() > 4000);
    assert_true(text == ours);
    // Ranks of one world see one order: the four shares interleave to what a single rank has.
    const Order order(1000, 12345, 6, true);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        const auto plan = BatchPlan::make(order, {.size = 16, .rank = rank, .world_size = 4});
        for (std::uint64_t b = 0; b < plan->batches(); ++b) {
            for (std::uint32_t i = 0; i < 16; ++i)
                assert_int_equal(plan->member(b, i).id, order.id_at(b * 64 + rank * 16 + i));
        }
    }
}

}  // namespace
}  // namespace sl

int main(int argc, char**) {
    using namespace sl;
    if (argc > 1) {
        std::fputs(plans_of_all_ranks().c_str(), stdout);
        return 0;
    }
    const CMUnitTest tests[] = {
        cmocka_unit_test(LDR_02_failing_samples_anywhere_change_no_count_and_no_other_samples_place),
        cmocka_unit_test(LDR_03_no_order_comes_twice_in_2000_epochs),
        cmocka_unit_test(a_billion_samples_take_no_memory),
        cmocka_unit_test(LDR_03_a_new_process_and_every_rank_have_the_same_order),
    };
    return cmocka_run_group_tests_name("plan properties", tests, nullptr, nullptr);
}
