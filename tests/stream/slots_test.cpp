// Sample slots: each lane has its own, the reserve is for the batch that is due, and what comes back goes to
// where it came from, so that strict order can always go on.
#include <random>
#include <set>
#include <vector>

#include "daemon/stream/sample_slots.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr SlotCounts kCounts{{5, 3, 2}, 4};
constexpr std::uint64_t kSlotBytes = 512;
constexpr Lane kAll[] = {Lane::kLight, Lane::kMedium, Lane::kHeavy};

SampleSlots make_slots() {
    auto segment = Segment::create("test", kCounts.total() * kSlotBytes);
    if (!segment) fail_msg("%s", segment.error().message.c_str());
    return {std::move(*segment), kSlotBytes, kCounts};
}

std::vector<std::uint32_t> take_all(SampleSlots& slots, Lane lane, bool due) {
    std::vector<std::uint32_t> taken;
    while (const auto slot = slots.acquire(lane, due))
        taken.push_back(*slot);
    return taken;
}

void a_lane_has_its_own_slots_and_takes_no_other_lanes(void**) {
    SampleSlots slots = make_slots();
    std::set<std::uint32_t> seen;
    for (Lane lane : kAll) {
        const auto taken = take_all(slots, lane, false);
        assert_int_equal(taken.size(), slots.capacity(lane));
        assert_int_equal(slots.held(lane), slots.capacity(lane));
        seen.insert(taken.begin(), taken.end());
    }
    assert_int_equal(seen.size(), 10);  // no slot twice
}

void a_full_lane_leaves_the_others_free(void**) {
    SampleSlots slots = make_slots();
    take_all(slots, Lane::kHeavy, false);
    assert_true(slots.acquire(Lane::kLight, false).has_value());
    assert_true(slots.acquire(Lane::kMedium, false).has_value());
    assert_false(slots.acquire(Lane::kHeavy, false).has_value());
}

void only_the_due_batch_gets_the_reserve_and_only_when_its_lane_is_full(void**) {
    SampleSlots slots = make_slots();
    assert_true(*slots.acquire(Lane::kLight, true) < 5);  // its own lane first
    take_all(slots, Lane::kLight, false);
    std::set<std::uint32_t> reserve;
    for (std::uint32_t i = 0; i < kCounts.reserve; ++i)
        reserve.insert(*slots.acquire(Lane::kLight, true));
    assert_true(reserve == std::set<std::uint32_t>({10, 11, 12, 13}));
}

void a_due_sample_gets_any_slot_when_the_reserve_is_used_up_too(void**) {
    SampleSlots slots = make_slots();
    assert_int_equal(take_all(slots, Lane::kLight, true).size(), kCounts.total());
    slots.release(9);  // heavy's
    assert_false(slots.acquire(Lane::kLight, false).has_value());
    assert_int_equal(*slots.acquire(Lane::kLight, true), 9);
}

void later_batches_cannot_keep_the_due_batch_from_a_slot(void**) {
    SampleSlots slots = make_slots();
    for (Lane lane : kAll)
        take_all(slots, lane, false);
    for (std::uint32_t i = 0; i < kCounts.reserve; ++i) {
        assert_true(slots.acquire(kAll[i % kLanes], true).has_value());
    }
}

void a_released_slot_goes_back_to_its_owner(void**) {
    SampleSlots slots = make_slots();
    for (Lane lane : kAll)
        take_all(slots, lane, false);
    const auto reserved = *slots.acquire(Lane::kHeavy, true);
    slots.release(reserved);
    for (Lane lane : kAll)
        assert_false(slots.acquire(lane, false).has_value());  // not one of a lane's
    slots.release(6);                                          // medium's
    assert_false(slots.acquire(Lane::kLight, false).has_value());
    assert_false(slots.acquire(Lane::kHeavy, false).has_value());
    assert_int_equal(slots.held(Lane::kMedium), 2);
    assert_int_equal(*slots.acquire(Lane::kMedium, false), 6);
}

void slots_lie_apart_and_within_the_segment(void**) {
    SampleSlots slots = make_slots();
    for (std::uint32_t slot = 0; slot < kCounts.total(); ++slot) {
        assert_true(slots.offset(slot) == slot * kSlotBytes);
        assert_true(slots.offset(slot) + kSlotBytes <= slots.segment().size());
        assert_true(reinterpret_cast<const std::byte*>(slots.data(slot)) ==
                    slots.segment().data() + slot * kSlotBytes);
    }
}

void an_offset_beyond_four_gigabytes_is_whole(void**) {
    auto segment = Segment::create("test", 4096);
    const SampleSlots slots(std::move(*segment), 50'000'000, {{200, 0, 0}, 0});
    assert_true(slots.offset(100) == 5'000'000'000);
}

void random_use_never_hands_out_a_slot_twice_nor_loses_one(void**) {
    SampleSlots slots = make_slots();
    std::mt19937 random(1);
    std::vector<std::uint32_t> held;
    for (int step = 0; step < 100'000; ++step) {
        if (random() % 2 == 0) {
            const auto slot = slots.acquire(kAll[random() % kLanes], random() % 3 == 0);
            if (!slot) continue;
            for (std::uint32_t other : held)
                assert_int_not_equal(other, *slot);
            held.push_back(*slot);
        } else if (!held.empty()) {
            const std::size_t index = random() % held.size();
            slots.release(held[index]);
            held[index] = held.back();
            held.pop_back();
        }
    }
    for (std::uint32_t slot : held)
        slots.release(slot);
    for (Lane lane : kAll) {
        assert_int_equal(slots.held(lane), 0);
        assert_int_equal(take_all(slots, lane, false).size(), slots.capacity(lane));
    }
    assert_int_equal(take_all(slots, Lane::kLight, true).size(), kCounts.reserve);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_has_its_own_slots_and_takes_no_other_lanes),
        cmocka_unit_test(a_full_lane_leaves_the_others_free),
        cmocka_unit_test(only_the_due_batch_gets_the_reserve_and_only_when_its_lane_is_full),
        cmocka_unit_test(a_due_sample_gets_any_slot_when_the_reserve_is_used_up_too),
        cmocka_unit_test(later_batches_cannot_keep_the_due_batch_from_a_slot),
        cmocka_unit_test(a_released_slot_goes_back_to_its_owner),
        cmocka_unit_test(slots_lie_apart_and_within_the_segment),
        cmocka_unit_test(an_offset_beyond_four_gigabytes_is_whole),
        cmocka_unit_test(random_use_never_hands_out_a_slot_twice_nor_loses_one),
    };
    return cmocka_run_group_tests_name("stream/slots", tests, nullptr, nullptr);
}
