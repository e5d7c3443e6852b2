// A guest that sees the batch segment: it writes rows where they belong, and collates batches, over the
// public C API.
#include <cstring>
#include <fstream>

#include "shm/error.h"
#include "tests/client/guest_peer.h"

namespace sl {
namespace {

constexpr std::uint64_t kSlot = 512;
constexpr std::uint64_t kBatches = 4096;  // where the slots begin
constexpr std::uint64_t kBatch = 4096;

sl_guest_job no_job() {
    sl_guest_job job{};
    job.struct_size = sizeof job;
    return job;
}

sl_shm_job placed(std::uint32_t kind, std::uint32_t slot, std::uint32_t row, std::uint64_t output = kSlot) {
    sl_shm_job job{};
    job.tag = 9;
    job.stream_id = kStream;
    job.place = {kind, slot, row, 0};
    job.output_offset = output;
    job.seed = 1234;
    job.epoch = 5;
    job.sample_id = 7;
    return job;
}

struct Session {
    GuestPeer peer;
    Segment samples = sealed("guest_samples", 16 * kSlot);
    Segment rows = sealed("guest_rows", kBatches + 2 * kBatch);
    sl_guest* guest = nullptr;

    explicit Session(const sl_shm_item_layout& layout = placed_fields()) {
        assert_int_equal(peer.attach(&guest), SL_OK);
        peer.announce(kStream, layout, samples, &rows);
        sl_guest_job job = no_job();
        assert_int_equal(sl_guest_next(guest, 0, &job), SL_TIMEOUT);
        assert_int_equal(peer.hear().head().type, SL_MSG_MAPPED);
    }
    ~Session() { sl_guest_detach(guest); }

    sl_guest_job next() {
        sl_guest_job job = no_job();
        assert_int_equal(sl_guest_next(guest, kPatienceMs, &job), SL_OK);
        return job;
    }
    [[nodiscard]] std::byte* batch(std::uint32_t slot) const {
        return rows.data() + kBatches + slot * kBatch;
    }
    // A row as the daemon and another guest have left it.
    void fill_row(std::uint32_t row, const char* text, std::uint64_t length, bool valid = true) const {
        std::memcpy(batch(1) + row * std::size_t{256}, text, std::strlen(text));
        std::memcpy(batch(1) + 1280 + row * sizeof length, &length, sizeof length);
        batch(1)[1024 + row] = std::byte{valid};
    }
};

std::size_t maps_of(const char* name) {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find(name) != std::string::npos ? 1 : 0;
    return count;
}

void an_item_that_has_its_place_is_written_into_its_row(void**) {
    Session session;
    session.peer.give(placed(SL_SHM_PLACE_ROW, 1, 3));
    const sl_guest_job job = session.next();
    assert_true(job.kind == SL_GUEST_ITEM && job.rows == 0 && job.index == 7);
    assert_true(job.field_count == 2 && job.field_bytes[0] == 128 && job.field_bytes[1] == 12);
    std::memset(job.field[0], 1, 128);
    std::memset(job.field[1], 2, 12);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    assert_true(session.peer.take().error_kind == 0);
    const std::byte* row = session.batch(1) + 3 * std::size_t{128};
    assert_true(row[-1] == std::byte{0} && row[0] == std::byte{1} && row[127] == std::byte{1});
    assert_true(row[128] == std::byte{0} && session.batch(1)[1060] == std::byte{0});
    const std::byte* slot = session.samples.data() + kSlot;
    assert_true(slot[64] == std::byte{0} && slot[192] == std::byte{2} && slot[203] == std::byte{2});
}

void an_item_that_has_none_yet_goes_into_its_slot(void**) {
    Session session;
    session.peer.give(placed(SL_SHM_PLACE_NONE, 1, 3));
    const sl_guest_job job = session.next();
    std::memset(job.field[0], 1, 128);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    session.peer.take();
    assert_true(session.samples.data()[kSlot + 64] == std::byte{1} && session.batch(1)[384] == std::byte{0});
}

void a_failure_in_place_leaves_its_text_in_the_slot(void**) {
    Session session;
    session.peer.give(placed(SL_SHM_PLACE_ROW, 0, 0));
    const sl_guest_job job = session.next();
    assert_int_equal(sl_guest_failed(session.guest, &job, "ValueError: no"), SL_OK);
    assert_int_equal(session.peer.take().error_kind, SampleErrorKind::kRaised);
    const std::byte* slot = session.samples.data() + kSlot;
    assert_int_equal(reinterpret_cast<const sl_shm_item_header*>(slot)->error_bytes, 14);
    assert_memory_equal(slot + 64, "ValueError: no", 14);
}

void only_the_slots_of_the_batches_are_mapped_and_a_hold_keeps_them(void**) {
    Session session;
    const std::size_t before = maps_of("guest_rows");
    session.peer.give(placed(SL_SHM_PLACE_ROW, 1, 3));
    sl_guest_job job = session.next();
    sl_memory* held = nullptr;
    assert_int_equal(sl_guest_hold(session.guest, &job, &held), SL_OK);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    session.peer.forget(kStream);
    sl_guest_job none = no_job();
    assert_int_equal(sl_guest_next(session.guest, 0, &none), SL_TIMEOUT);
    assert_int_equal(maps_of("guest_rows"), before);
    std::memset(job.field[0], 1, 128);
    sl_memory_release(held);
    assert_int_equal(maps_of("guest_rows"), before - 1);
}

void a_batch_to_collate_lists_its_valid_rows_in_order(void**) {
    Session session(collated_field());
    session.fill_row(0, "first", 5);
    session.fill_row(1, "nobody's", 8, false);
    session.fill_row(2, "third", UINT64_MAX);  // which nobody believes
    session.fill_row(3, "beyond", 6);
    session.peer.give(placed(SL_SHM_PLACE_COLLATE, 1, 3, SL_SHM_NO_OUTPUT));
    const sl_guest_job job = session.next();
    assert_true(job.kind == SL_GUEST_COLLATE && job.index == 7 && job.epoch == 5 && job.seed == 1234);
    assert_true(job.field_count == 1 && job.field_bytes[0] == 100 && job.rows == 2);
    assert_true(job.row_bytes[0] == 5 && job.row_bytes[1] == 256);
    assert_memory_equal(job.row[0], "first", 5);
    assert_memory_equal(job.row[1], "third", 5);
    std::memcpy(job.field[0], "first third", 11);
    assert_int_equal(sl_guest_done(session.guest, &job, 101), SL_E_INVALID_ARGUMENT);
    assert_says("batch 7 takes 101 bytes when collated; there are 100");
    assert_int_equal(sl_guest_done(session.guest, &job, 11), SL_OK);
    const sl_shm_completion completion = session.peer.take();
    assert_true(completion.tag == 9 && completion.error_kind == 0 && completion.written == 11);
    assert_memory_equal(session.batch(1) + 1536, "first third", 11);
}

void an_item_follows_a_batch_and_a_batch_an_item(void**) {
    Session session(collated_field());
    session.fill_row(0, "first", 5);
    for (int i = 0; i < 3; ++i) {
        session.peer.give(placed(SL_SHM_PLACE_COLLATE, 1, 1, SL_SHM_NO_OUTPUT));
        session.peer.give(placed(SL_SHM_PLACE_ROW, 0, 2));
        const sl_guest_job batch = session.next();
        assert_true(batch.kind == SL_GUEST_COLLATE && batch.rows == 1);
        assert_int_equal(sl_guest_done(session.guest, &batch, 0), SL_OK);
        const sl_guest_job item = session.next();
        assert_true(item.kind == SL_GUEST_ITEM && item.rows == 0 && item.row == nullptr);
        assert_true(item.field_count == 1 && item.field_bytes[0] == 256);
        assert_int_equal(sl_guest_done(session.guest, &item, 3), SL_OK);
        assert_true(session.peer.take().written == 0 && session.peer.take().written == 0);
    }
}

void a_batch_that_cannot_be_collated_says_why_in_its_place(void**) {
    Session session(collated_field());
    session.peer.give(placed(SL_SHM_PLACE_COLLATE, 1, 0, SL_SHM_NO_OUTPUT));
    const sl_guest_job job = session.next();
    const std::string text = std::string(200, 'x') + "\u20acTypeError";
    assert_int_equal(sl_guest_failed(session.guest, &job, text.c_str()), SL_OK);
    const sl_shm_completion completion = session.peer.take();
    assert_true(completion.written == 100);
    assert_string_equal(sl_sample_kind_name(completion.error_kind), "collate");
    assert_memory_equal(session.batch(1) + 1536, text.c_str() + text.size() - 100, 100);
}

// ---- lies ----

void a_place_outside_the_batches_fails_and_the_next_job_is_given(void**) {
    const sl_shm_job wrong[] = {placed(SL_SHM_PLACE_ROW, 2, 0),
                                placed(SL_SHM_PLACE_ROW, 0, 4),
                                placed(SL_SHM_PLACE_ROW, UINT32_MAX, UINT32_MAX),
                                placed(3, 0, 0),
                                placed(SL_SHM_PLACE_COLLATE, 2, 1, SL_SHM_NO_OUTPUT),
                                placed(SL_SHM_PLACE_COLLATE, 0, 5, SL_SHM_NO_OUTPUT)};
    Session session(collated_field());
    for (const sl_shm_job& job : wrong) {
        session.peer.give(job);
        sl_guest_job none = no_job();
        assert_int_equal(sl_guest_next(session.guest, 0, &none), SL_TIMEOUT);
        assert_int_equal(session.peer.take().error_kind, SampleErrorKind::kIo);
    }
    Session other;  // whose batches nobody collates
    other.peer.give(placed(SL_SHM_PLACE_COLLATE, 0, 1, SL_SHM_NO_OUTPUT));
    other.peer.give(placed(SL_SHM_PLACE_ROW, 0, 0));
    const sl_guest_job job = other.next();
    assert_int_equal(other.peer.take().error_kind, SampleErrorKind::kIo);
    assert_int_equal(sl_guest_done(other.guest, &job, 0), SL_OK);
}

struct Lie {
    const char* what;
    void (*tell)(sl_shm_item_layout& layout);
};

constexpr Lie kLies[] = {
    {"number of batches", [](sl_shm_item_layout& layout) { layout.batch_slots = 0; }},
    {"number of batches", [](sl_shm_item_layout& layout) { layout.batch_slots = 257; }},
    {"batch offset", [](sl_shm_item_layout& layout) { layout.slots_offset = 64; }},
    {"batch offset", [](sl_shm_item_layout& layout) { layout.slots_offset = UINT64_MAX - 4095; }},
    {"batch length", [](sl_shm_item_layout& layout) { layout.batch_bytes = 0; }},
    {"batch length", [](sl_shm_item_layout& layout) { layout.batch_bytes = UINT64_MAX - 4095; }},
    {"number of rows", [](sl_shm_item_layout& layout) { layout.rows = 0; }},
    {"row offset", [](sl_shm_item_layout& layout) { layout.rows = UINT32_MAX; }},
    {"row offset", [](sl_shm_item_layout& layout) { layout.row_offset[0] = 32; }},
    {"row offset", [](sl_shm_item_layout& layout) { layout.row_offset[0] = 4096 - 4 * 256 + 64; }},
    {"row offset", [](sl_shm_item_layout& layout) { layout.row_offset[0] = UINT64_MAX - 63; }},
    {"field in place", [](sl_shm_item_layout& layout) { layout.in_place = 2; }},
    {"field in place", [](sl_shm_item_layout& layout) { layout.field[0].bytes = 100; }},
    {"offset of what is valid", [](sl_shm_item_layout& layout) { layout.valid_offset = 4093; }},
    {"offset of lengths", [](sl_shm_item_layout& layout) { layout.lengths_offset = 1284; }},
    {"offset of lengths", [](sl_shm_item_layout& layout) { layout.lengths_offset = 4096 - 24; }},
    {"offset of a collated batch", [](sl_shm_item_layout& layout) { layout.collated_offset = 1537; }},
    {"offset of a collated batch", [](sl_shm_item_layout& layout) { layout.collated_bytes = UINT64_MAX; }},
    {"flag", [](sl_shm_item_layout& layout) { layout.flags = 0; }},
};

// What a guest makes of what it is told.
void assert_ends(const char* what, const std::function<void(GuestPeer&)>& tell) {
    GuestPeer peer;
    sl_guest* guest = nullptr;
    assert_int_equal(peer.attach(&guest), SL_OK);
    tell(peer);
    peer.told();
    sl_guest_job job = no_job();
    assert_int_equal(sl_guest_next(guest, kPatienceMs, &job), SL_E_PROTOCOL);
    assert_says(what);
    sl_guest_detach(guest);
}

void an_impossible_layout_of_batches_ends_the_guest(void**) {
    for (const Lie& lie : kLies) {
        sl_shm_item_layout layout = collated_field();
        lie.tell(layout);
        assert_ends(lie.what, [&](GuestPeer& peer) { peer.send_layout(kStream, layout); });
    }
}

// What is sent after the layout: a segment, in order or not, and how long it is said to be (0: as it is).
struct Sent {
    const char* what;
    std::uint32_t kind;
    std::uint64_t stream, stated;
    bool is_samples;
    int times;
};

constexpr Sent kWrongSegments[] = {
    {"before its rows", SL_SEGMENT_SAMPLES, kStream, 0, true, 1},
    {"not announced with any", SL_SEGMENT_ROWS, kStream + 1, 0, false, 1},
    {"not announced with any", SL_SEGMENT_ROWS, kStream, 0, false, 2},
    {"not 4096 as stated", SL_SEGMENT_ROWS, kStream, 4096, false, 1},
    {"no room for its slots", SL_SEGMENT_ROWS, kStream, 0, true, 1},
};

void segments_that_do_not_fit_the_layout_end_the_guest(void**) {
    const Segment samples = sealed("guest_samples", 16 * kSlot);
    const Segment rows = sealed("guest_rows", kBatches + 2 * kBatch);
    for (const Sent& wrong : kWrongSegments) {
        const Segment& segment = wrong.is_samples ? samples : rows;
        assert_ends(wrong.what, [&](GuestPeer& peer) {
            peer.send_layout(kStream, placed_fields());
            for (int i = 0; i < wrong.times; ++i)
                peer.send_segment(wrong.kind, wrong.stream, wrong.stated != 0 ? wrong.stated : segment.size(),
                                  segment.writable_fd());
        });
    }
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_item_that_has_its_place_is_written_into_its_row),
        cmocka_unit_test(an_item_that_has_none_yet_goes_into_its_slot),
        cmocka_unit_test(a_failure_in_place_leaves_its_text_in_the_slot),
        cmocka_unit_test(only_the_slots_of_the_batches_are_mapped_and_a_hold_keeps_them),
        cmocka_unit_test(a_batch_to_collate_lists_its_valid_rows_in_order),
        cmocka_unit_test(an_item_follows_a_batch_and_a_batch_an_item),
        cmocka_unit_test(a_batch_that_cannot_be_collated_says_why_in_its_place),
        cmocka_unit_test(a_place_outside_the_batches_fails_and_the_next_job_is_given),
        cmocka_unit_test(an_impossible_layout_of_batches_ends_the_guest),
        cmocka_unit_test(segments_that_do_not_fit_the_layout_end_the_guest),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
