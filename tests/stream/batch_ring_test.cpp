// The batch ring, seen through a second, read-only map: what is published is visible, in order, and says
// where everything lies; states, errors and the end come through; a sleeper is woken and an event loop rung.
#include "daemon/stream/batch_ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "shm/wake.h"
#include "tests/cmocka_cpp.h"
#include "tests/stream/ring_client.h"

namespace sl {
namespace {

void the_header_names_the_stream_and_lies_within_the_segment(void**) {
    const StreamLayout layout = layout_for(5, 3);
    BatchRing ring = make_ring(layout);
    RingClient client(ring);
    const sl_shm_batch_header& header = client.header();
    assert_true(header.magic == SL_SHM_MAGIC);
    assert_int_equal(sl_shm_load_acquire_u32(&header.ready), SL_SHM_READY);
    assert_int_equal(header.major, SL_SHM_MAJOR);
    assert_int_equal(header.header_bytes, sizeof(sl_shm_batch_header));
    assert_true(header.segment_bytes == ring.batches().size());
    assert_true(header.boot_id == 11 && header.stream_id == 22 && header.batches_per_epoch == 33);
    assert_true(header.epochs == 44 && header.samples == 55);
    assert_true(header.first_epoch == 9 && header.first_batch == 10);
    assert_true(header.fingerprint == 66 && header.seed == 77 && header.global_batch == 88);
    assert_int_equal(header.order_version, kOrderVersion);
    assert_int_equal(header.last, SL_SHM_LAST_PAD);
    assert_int_equal(header.flags, SL_SHM_SHUFFLE | SL_SHM_ANY_MEMBERS);
    assert_int_equal(header.slot_count, 3);
    assert_int_equal(header.batch_size, 5);
    assert_int_equal(header.tensor_count, 4);
    assert_string_equal(header.tensors[0].name, "image");
    assert_string_equal(header.tensors[3].name, "valid");
    assert_true(header.slots_offset + header.slot_count * header.slot_bytes <= header.segment_bytes);
}

void the_client_cannot_map_batches_writable_and_can_the_return_page(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    void* map = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring.batches().writable_fd(), 0);
    assert_true(map == MAP_FAILED);
    auto returns = Mapping::map(ring.returns().writable_fd(), ring.returns().size(), Access::kReadWrite);
    assert_true(returns.has_value());
    assert_int_equal(::ftruncate(ring.returns().writable_fd(), 0), -1);  // else the daemon would meet SIGBUS
}

void a_published_batch_is_visible_with_its_pixels_and_its_info(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    RingClient client(ring);
    assert_false(client.take().has_value());
    const auto slot = ring.acquire();
    assert_true(slot.has_value());
    std::memset(ring.tensor(*slot, 0), 0x5a, ring.layout().tensors[0].bytes);
    ring.info(*slot, 2)->sample_id = 1234;
    assert_false(client.take().has_value());
    ring.publish_batch(*slot, 6, 7, 8, 3);
    const auto batch = client.take();
    assert_true(batch.has_value());
    assert_int_equal(batch->kind, SL_DESCRIPTOR_BATCH);
    assert_int_equal(batch->slot, *slot);
    assert_true(batch->epoch == 6 && batch->batch == 7 && batch->step == 8);
    assert_int_equal(batch->count, 3);
    assert_true(client.tensor(batch->slot, 0)[client.header().tensors[0].bytes - 1] == std::byte{0x5a});
    assert_true(client.info(batch->slot)[2].sample_id == 1234);
    assert_int_equal(sl_slot_state(client.slot_word(*slot)), SL_SLOT_LEASED);
    assert_int_equal(sl_slot_generation(client.slot_word(*slot)), batch->generation);
    assert_false(client.take().has_value());
}

// By the client's own account: how far it has come, and whether something lay ready when its last one was
// published.
void what_the_client_has_taken_is_seen_and_whether_it_had_to_wait(void**) {
    BatchRing ring = make_ring(layout_for(4, 4));
    RingClient client(ring);
    assert_false(ring.taken().has_value());
    for (std::uint64_t step : {7, 8})
        ring.publish_batch(*ring.acquire(), 0, step, step, 4);
    assert_false(ring.taken().has_value());
    client.take();
    assert_true(ring.taken()->step == 8 && ring.taken()->waited);
    client.take();
    assert_true(ring.taken()->step == 9 && !ring.taken()->waited);
    ring.publish_state(SL_DESCRIPTOR_END_OF_EPOCH, 0, 9);
    client.take();
    assert_true(ring.taken()->step == 9 && ring.taken()->waited);
    client.returns().consumed = 1'000'000;  // a lie is no harm
    assert_true(!ring.taken() || ring.taken()->step <= 9);
}

void descriptors_come_in_the_order_of_publishing(void**) {
    BatchRing ring = make_ring(layout_for(4, 4));
    RingClient client(ring);
    std::uint64_t step = 0;
    std::uint64_t seen = 0;
    for (int lap = 0; lap < 50; ++lap) {
        for (int i = 0; i < 4; ++i) {
            const auto slot = ring.acquire();
            ring.publish_batch(*slot, 0, step, step, 4);
            ring.publish_state(SL_DESCRIPTOR_END_OF_EPOCH, 0, step++);
        }
        while (const auto one = client.take()) {
            assert_true(one->step == seen / 2);
            assert_int_equal(one->kind, seen % 2 == 0 ? SL_DESCRIPTOR_BATCH : SL_DESCRIPTOR_END_OF_EPOCH);
            if (one->kind == SL_DESCRIPTOR_BATCH) client.give_back(*one);
            ++seen;
        }
        assert_true(ring.collect_returns());
    }
    assert_true(seen == 400);
}

void the_longest_backlog_an_unread_stream_can_have_fits_the_ring(void**) {
    for (std::uint32_t slots : {1U, 2U, 3U, 31U, 256U}) {
        BatchRing ring = make_ring(layout_for(1, slots));
        RingClient client(ring);
        for (std::uint32_t i = 0; i < slots; ++i) {
            ring.publish_batch(*ring.acquire(), 0, i, i, 1);
            ring.publish_state(SL_DESCRIPTOR_END_OF_EPOCH, 0, i);
        }
        ring.publish_state(SL_DESCRIPTOR_END, 0, slots);
        ring.publish_error({}, slots);
        assert_int_equal(ring.unread(), 2 * slots + 2);
        assert_true(client.take()->step == 0);  // nothing has been overwritten
        for (std::uint32_t i = 1; i < 2 * slots; ++i)
            assert_true(client.take()->step == i / 2);
        assert_int_equal(client.take()->kind, SL_DESCRIPTOR_END);
        assert_int_equal(client.take()->kind, SL_DESCRIPTOR_ERROR);
    }
}

void an_error_page_is_written_before_its_descriptor(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    RingClient client(ring);
    sl_shm_stream_error error{};
    error.status = -13;
    error.epoch = 3;
    error.offset = 5'000'000'000;
    std::strcpy(error.path, "a/b.jpg");
    std::strcpy(error.message, "no picture");
    ring.publish_error(error, 9);
    const auto descriptor = client.take();
    assert_int_equal(descriptor->kind, SL_DESCRIPTOR_ERROR);
    assert_true(descriptor->epoch == 3 && descriptor->step == 9);
    assert_int_equal(client.error().status, -13);
    assert_true(client.error().offset == 5'000'000'000);
    assert_string_equal(client.error().path, "a/b.jpg");
    assert_string_equal(client.error().message, "no picture");
}

bool readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

// One ring, which must be the only one.
void take_ring(int fd) {
    char rung = 0;
    assert_int_equal(::recv(fd, &rung, sizeof rung, MSG_DONTWAIT), 1);
    assert_false(readable(fd));
}

void the_event_is_rung_once_from_the_start_for_who_asks_later(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    take_ring(ring.event_fd());
}

void a_client_that_takes_no_ring_and_makes_its_end_blocking_does_not_stop_a_publish(void**) {
    BatchRing ring = make_ring(layout_for(1, 2));
    RingClient client(ring);
    assert_int_equal(::fcntl(ring.event_fd(), F_SETFL, 0), 0);
    sl_shm_store_relaxed_u32(&client.returns().wants_event, 1);
    for (std::uint64_t step = 0; step < 2000; ++step) {
        ring.publish_batch(*ring.acquire(), 0, step, step, 1);
        client.give_back(*client.take());
        assert_true(ring.collect_returns());
    }
    assert_true(readable(ring.event_fd()));
}

void the_event_is_rung_on_publish_only_for_who_asked_for_it(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    RingClient client(ring);
    take_ring(ring.event_fd());
    ring.publish_batch(*ring.acquire(), 0, 0, 0, 4);
    assert_false(readable(ring.event_fd()));
    sl_shm_store_relaxed_u32(&client.returns().wants_event, 1);
    ring.publish_batch(*ring.acquire(), 0, 1, 1, 4);
    assert_true(readable(ring.event_fd()));
}

void closing_says_so_and_rings(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    RingClient client(ring);
    take_ring(ring.event_fd());
    assert_int_equal(sl_shm_load_acquire_u32(&client.live().closed), 0);
    ring.close();
    assert_int_equal(sl_shm_load_acquire_u32(&client.live().closed), 1);
    assert_true(readable(ring.event_fd()));
}

void unread_is_never_more_than_the_ring_whatever_the_client_says(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    RingClient client(ring);
    ring.publish_batch(*ring.acquire(), 0, 0, 0, 4);
    assert_int_equal(ring.unread(), 1);
    for (std::uint32_t lie : {2U, 5U, 0x80000000U, 0xffffffffU}) {
        sl_shm_store_relaxed_u32(&client.returns().consumed, lie);
        assert_true(ring.unread() <= ring.layout().ring_capacity);
    }
}

void statistics_are_seen_by_the_client_with_a_batch_and_before_the_daemon_sleeps(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    RingClient client(ring);
    count(ring.stats().batches);
    count(ring.stats().samples, 40);
    ring.publish_batch(*ring.acquire(), 0, 0, 0, 4);
    assert_true(sl_shm_load_relaxed_u64(&client.live().stats.batches) == 1);
    assert_true(sl_shm_load_relaxed_u64(&client.live().stats.samples) == 40);
    count(ring.stats().failed);
    ring.set_sleeping(true);
    assert_true(sl_shm_load_relaxed_u64(&client.live().stats.failed) == 1);
}

void a_ring_that_guests_write_can_be_mapped_and_never_cut(void**) {
    StreamLayout layout = layout_for(4, 2);
    layout.items.batch_slots = layout.slot_count;
    BatchRing ring = make_ring(layout);
    const int fd = ring.batches().writable_fd();
    assert_true(Mapping::map(fd, ring.batches().size(), Access::kReadWrite).has_value());
    assert_int_equal(::ftruncate(fd, 0), -1);
}

void nothing_of_a_ring_is_believed(void**) {
    BatchRing ring = make_ring(layout_for(4, 2));
    RingClient client(ring);
    count(ring.stats().samples, 40);
    const std::uint32_t slot = *ring.acquire();
    ring.publish_batch(slot, 0, 0, 7, 4);
    sl_shm_store_relaxed_u32(&client.returns().consumed, 1);
    for (int byte : {0xff, 0x00, 0x01}) {
        std::memset(ring.batches().data(), byte, ring.batches().size());
        assert_true(ring.stats().samples == 40 && ring.taken()->step == 8 && ring.leased() == 1);
        assert_false(ring.collect_returns());
    }
    sl_shm_store_release_u32(&client.returns().generation[slot], 1);
    assert_true(ring.collect_returns() && ring.leased() == 0);
    ring.publish_batch(*ring.acquire(), 0, 1, 8, 4);
    assert_int_equal(sl_shm_load_acquire_u32(&client.live().published), 2);
}

void a_ring_that_does_not_fit_the_machine_is_no_memory(void**) {
    StreamLayout layout = layout_for(4, 2);
    layout.segment_bytes = std::uint64_t{1} << 50;
    auto ring = BatchRing::create(layout, {});
    assert_false(ring.has_value());
    assert_true(ring.error().status == Status::kNoMemory);
    assert_non_null(std::strstr(ring.error().message.c_str(), "batch ring"));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_header_names_the_stream_and_lies_within_the_segment),
        cmocka_unit_test(the_client_cannot_map_batches_writable_and_can_the_return_page),
        cmocka_unit_test(a_published_batch_is_visible_with_its_pixels_and_its_info),
        cmocka_unit_test(what_the_client_has_taken_is_seen_and_whether_it_had_to_wait),
        cmocka_unit_test(descriptors_come_in_the_order_of_publishing),
        cmocka_unit_test(the_longest_backlog_an_unread_stream_can_have_fits_the_ring),
        cmocka_unit_test(an_error_page_is_written_before_its_descriptor),
        cmocka_unit_test(the_event_is_rung_once_from_the_start_for_who_asks_later),
        cmocka_unit_test(a_client_that_takes_no_ring_and_makes_its_end_blocking_does_not_stop_a_publish),
        cmocka_unit_test(the_event_is_rung_on_publish_only_for_who_asked_for_it),
        cmocka_unit_test(closing_says_so_and_rings),
        cmocka_unit_test(unread_is_never_more_than_the_ring_whatever_the_client_says),
        cmocka_unit_test(statistics_are_seen_by_the_client_with_a_batch_and_before_the_daemon_sleeps),
        cmocka_unit_test(a_ring_that_guests_write_can_be_mapped_and_never_cut),
        cmocka_unit_test(nothing_of_a_ring_is_believed),
        cmocka_unit_test(a_ring_that_does_not_fit_the_machine_is_no_memory),
    };
    return cmocka_run_group_tests_name("stream/batch ring", tests, nullptr, nullptr);
}
