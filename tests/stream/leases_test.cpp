// Leases: they end in any order and only by the generation that was leased; whatever a client writes into its
// return page, a slot that it holds is never handed out again and one that it does not hold is not freed
// (promise 5).
#include <algorithm>
#include <random>
#include <vector>

#include "daemon/stream/batch_ring.h"
#include "tests/cmocka_cpp.h"
#include "tests/stream/ring_client.h"

namespace sl {
namespace {

std::vector<sl_shm_descriptor> publish_all(BatchRing& ring, RingClient& client) {
    std::vector<sl_shm_descriptor> batches;
    while (const auto slot = ring.acquire())
        ring.publish_batch(*slot, 0, 0, 0, 1);
    while (const auto batch = client.take())
        batches.push_back(*batch);
    return batches;
}

void a_slot_is_handed_out_once_until_it_comes_back(void**) {
    BatchRing ring = make_ring(layout_for(1, 5));
    RingClient client(ring);
    std::vector<std::uint32_t> slots;
    while (const auto slot = ring.acquire())
        slots.push_back(*slot);
    std::ranges::sort(slots);
    assert_true(slots == std::vector<std::uint32_t>({0, 1, 2, 3, 4}));
    for (std::uint32_t slot : slots)
        ring.publish_batch(slot, 0, 0, 0, 1);
    assert_false(ring.acquire().has_value());
    assert_false(ring.collect_returns());
    assert_int_equal(ring.leased(), 5);
}

void leases_end_in_any_order(void**) {
    BatchRing ring = make_ring(layout_for(1, 4));
    RingClient client(ring);
    std::vector<std::uint32_t> order = {0, 1, 2, 3};
    do {
        const auto batches = publish_all(ring, client);
        std::vector<sl_shm_descriptor> later;
        assert_int_equal(batches.size(), 4);
        for (std::uint32_t index : order) {
            client.give_back(batches[index]);
            assert_true(ring.collect_returns());
            assert_int_equal(sl_slot_state(client.slot_word(batches[index].slot)), SL_SLOT_FREE);
            const auto slot = ring.acquire();  // just the one that came back
            assert_int_equal(*slot, batches[index].slot);
            assert_false(ring.acquire().has_value());
            ring.publish_batch(*slot, 0, 0, 0, 1);
            later.push_back(*client.take());
            assert_true(later.back().generation != batches[index].generation);
        }
        for (const auto& batch : later)
            client.give_back(batch);
        assert_true(ring.collect_returns());
        assert_int_equal(ring.leased(), 0);
    } while (std::ranges::next_permutation(order).found);
}

void a_forged_generation_ends_no_lease(void**) {
    BatchRing ring = make_ring(layout_for(1, 1));
    RingClient client(ring);
    const auto batch = publish_all(ring, client).front();
    for (std::uint32_t forged : {0U, batch.generation + 1, batch.generation - 1, 0xffffffffU, 0x80000000U}) {
        if (forged == batch.generation) continue;
        sl_shm_store_release_u32(&client.returns().generation[batch.slot], forged);
        assert_false(ring.collect_returns());
        assert_false(ring.acquire().has_value());
    }
    client.give_back(batch);
    assert_true(ring.collect_returns());
}

void a_stale_generation_ends_no_later_lease(void**) {
    BatchRing ring = make_ring(layout_for(1, 1));
    RingClient client(ring);
    std::vector<sl_shm_descriptor> earlier;
    for (int i = 0; i < 20; ++i) {
        const auto batch = publish_all(ring, client).front();
        assert_false(ring.collect_returns());  // the page still shows the last return
        for (const auto& stale : earlier) {
            client.give_back(stale);
            assert_false(ring.collect_returns());
        }
        client.give_back(batch);
        assert_true(ring.collect_returns());
        earlier.push_back(batch);
    }
}

void giving_back_twice_ends_one_lease(void**) {
    BatchRing ring = make_ring(layout_for(1, 2));
    RingClient client(ring);
    const auto batches = publish_all(ring, client);
    client.give_back(batches[0]);
    assert_true(ring.collect_returns());
    client.give_back(batches[0]);
    assert_false(ring.collect_returns());
    assert_int_equal(ring.leased(), 1);
}

void returns_for_slots_that_are_free_or_filling_do_nothing(void**) {
    BatchRing ring = make_ring(layout_for(1, 3));
    RingClient client(ring);
    ring.publish_batch(*ring.acquire(), 0, 0, 0, 1);  // one lease, so that the page is looked at
    const auto filling = ring.acquire();
    const std::uint32_t generation = sl_slot_generation(client.slot_word(*filling));
    sl_shm_store_release_u32(&client.returns().generation[*filling], generation);  // before it is published
    sl_shm_store_release_u32(&client.returns().generation[2], 0);
    for (std::uint32_t slot = 3; slot < SL_SHM_MAX_SLOTS; ++slot) {
        sl_shm_store_release_u32(&client.returns().generation[slot], 1);
    }
    assert_false(ring.collect_returns());
    assert_int_equal(sl_slot_state(client.slot_word(*filling)), SL_SLOT_FILLING);
    const auto other = ring.acquire();
    assert_true(other.has_value() && *other != *filling);
    assert_false(ring.acquire().has_value());
}

// A client that writes anything at all into its page, against a model of what it may bring about: a slot
// comes free only if the word names the lease that is open on it.
void a_page_of_random_words_frees_only_what_it_names_exactly(void**) {
    constexpr std::uint32_t kSlots = 8;
    BatchRing ring = make_ring(layout_for(1, kSlots));
    RingClient client(ring);
    std::mt19937 random(3);
    std::vector<std::uint32_t> open(kSlots, 0);  // generation of the open lease, 0: none
    for (int round = 0; round < 20'000; ++round) {
        while (const auto slot = ring.acquire()) {
            assert_int_equal(open[*slot], 0);  // never a slot that is leased
            ring.publish_batch(*slot, 0, 0, 0, 1);
        }
        while (const auto batch = client.take())
            open[batch->slot] = batch->generation;
        std::uint32_t freed = 0;
        for (std::uint32_t slot = 0; slot < SL_SHM_MAX_SLOTS; ++slot) {
            const std::uint32_t word =
                random() % 3 == 0 ? random()
                                  : static_cast<std::uint32_t>(random() % 4) - 2 + open[slot % kSlots];
            sl_shm_store_release_u32(&client.returns().generation[slot], word);
            if (slot < kSlots && open[slot] != 0 && word == open[slot]) {
                open[slot] = 0;
                ++freed;
            }
        }
        assert_int_equal(ring.collect_returns(), freed > 0);
        assert_int_equal(ring.leased(), kSlots - freed);
    }
}

void a_fresh_return_page_ends_no_lease(void**) {
    BatchRing ring = make_ring(layout_for(1, 1));
    RingClient client(ring);
    assert_int_equal(client.returns().generation[0], 0);
    const auto batch = publish_all(ring, client).front();
    assert_int_not_equal(batch.generation, 0);
    assert_false(ring.collect_returns());
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_handed_out_once_until_it_comes_back),
        cmocka_unit_test(leases_end_in_any_order),
        cmocka_unit_test(a_forged_generation_ends_no_lease),
        cmocka_unit_test(a_stale_generation_ends_no_later_lease),
        cmocka_unit_test(giving_back_twice_ends_one_lease),
        cmocka_unit_test(returns_for_slots_that_are_free_or_filling_do_nothing),
        cmocka_unit_test(a_page_of_random_words_frees_only_what_it_names_exactly),
        cmocka_unit_test(a_fresh_return_page_ends_no_lease),
    };
    return cmocka_run_group_tests_name("stream/leases", tests, nullptr, nullptr);
}
