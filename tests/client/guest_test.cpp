// A guest worker over the public C API: it attaches, is told of streams, makes items, fails, waits and
// leaves.
#include <time.h>

#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "shm/error.h"
#include "tests/client/guest_peer.h"
#include "tests/shm/child.h"

namespace sl {
namespace {

constexpr std::uint64_t kSlot = 512;

sl_guest_job no_job() {
    sl_guest_job job{};
    job.struct_size = sizeof job;
    return job;
}

sl_shm_job job_at(std::uint64_t tag, std::uint64_t offset, std::uint64_t index = 7) {
    return {tag, kStream, 0, 0, offset, 1234, 5, index};
}

// A guest that has mapped a stream; two_fields unless the test says otherwise.
struct Session {
    GuestPeer peer;
    Segment samples = sealed("guest_samples", 16 * kSlot);
    sl_guest* guest = nullptr;

    explicit Session(const sl_shm_item_layout& layout = two_fields()) {
        assert_int_equal(peer.attach(&guest), SL_OK);
        peer.announce(kStream, layout, samples);
        sl_guest_job job = no_job();
        assert_int_equal(sl_guest_next(guest, 0, &job), SL_TIMEOUT);
        const Packet& answer = peer.hear();
        assert_int_equal(answer.head().type, SL_MSG_MAPPED);
        assert_true(answer.as<sl_msg_stream>()->stream_id == kStream);
    }
    ~Session() { sl_guest_detach(guest); }

    sl_guest_job next() {
        sl_guest_job job = no_job();
        assert_int_equal(sl_guest_next(guest, kPatienceMs, &job), SL_OK);
        return job;
    }
    [[nodiscard]] const sl_shm_item_header& header(std::uint64_t offset) const {
        return *reinterpret_cast<const sl_shm_item_header*>(samples.data() + offset);
    }
    [[nodiscard]] std::string text(std::uint64_t offset) const {
        return {reinterpret_cast<const char*>(samples.data()) + offset + sizeof(sl_shm_item_header),
                header(offset).error_bytes};
    }
};

std::uint64_t thread_cpu_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// How often samples are mapped in this process.
std::size_t maps_of_samples() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("guest_samples") != std::string::npos ? 1 : 0;
    return count;
}

void a_guest_says_who_it_is(void**) {
    Session session;
    assert_int_equal(session.peer.hello().role, SL_ROLE_GUEST);
    assert_true(session.peer.guest().crew == kCrew);
    assert_int_equal(session.peer.guest().workers, 3);
}

void an_item_is_written_where_the_layout_says(void**) {
    Session session;
    std::memset(session.samples.data() + kSlot, 0xff, sizeof(sl_shm_item_header));
    session.peer.give(job_at(99, kSlot));
    const sl_guest_job job = session.next();
    assert_true(job.index == 7 && job.epoch == 5 && job.seed == 1234 && job.stream == kStream);
    assert_int_equal(job.field_count, 2);
    assert_true(job.field_bytes[0] == 12 && job.field_bytes[1] == 100);
    std::memset(job.field[0], 1, 12);
    std::memset(job.field[1], 2, 100);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    const sl_shm_completion completion = session.peer.take();
    assert_true(completion.tag == 99 && completion.error_kind == 0);
    assert_true(completion.begin_ns <= completion.end_ns && completion.message[0] == '\0');
    assert_true(session.header(kSlot).payload_bytes == 0 && session.header(kSlot).error_bytes == 0);
    const std::byte* slot = session.samples.data() + kSlot;
    assert_true(slot[64] == std::byte{1} && slot[75] == std::byte{1} && slot[76] == std::byte{0});
    assert_true(slot[128] == std::byte{2} && slot[227] == std::byte{2} && slot[228] == std::byte{0});
}

void an_opaque_item_says_how_long_it_is(void**) {
    Session session(opaque_field());
    session.peer.give(job_at(1, 0));
    const sl_guest_job job = session.next();
    assert_true(job.field_count == 1 && job.field_bytes[0] == 300);
    assert_int_equal(sl_guest_done(session.guest, &job, 301), SL_E_INVALID_ARGUMENT);
    assert_says("item 7");
    assert_says("301");
    assert_int_equal(sl_guest_done(session.guest, &job, 300), SL_OK);  // it was still at hand
    assert_true(session.peer.take().tag == 1 && session.header(0).payload_bytes == 300);
}

void fixed_rows_have_no_payload(void**) {
    Session session;
    session.peer.give(job_at(1, 0));
    const sl_guest_job job = session.next();
    assert_int_equal(sl_guest_done(session.guest, &job, 1), SL_E_INVALID_ARGUMENT);
    assert_says("\"bytes\"");
}

void a_failure_leaves_its_text(void**) {
    Session session;
    session.peer.give(job_at(3, 2 * kSlot));
    const sl_guest_job job = session.next();
    assert_int_equal(sl_guest_failed(session.guest, &job, "ValueError: no"), SL_OK);
    const sl_shm_completion completion = session.peer.take();
    assert_int_equal(completion.error_kind, SampleErrorKind::kRaised);
    assert_string_equal(completion.message, "ValueError: no");
    assert_true(session.text(2 * kSlot) == "ValueError: no");
    assert_string_equal(sl_sample_kind_name(completion.error_kind), "raised");
}

void of_a_long_text_the_end_is_kept_from_a_characters_first_byte(void**) {
    Session session;
    std::string text = "begin";
    for (int i = 0; i < 300; ++i)
        text += "\u20ac";  // three bytes
    text += "end";
    session.peer.give(job_at(3, 0));
    const sl_guest_job job = session.next();
    assert_int_equal(sl_guest_failed(session.guest, &job, text.c_str()), SL_OK);
    session.peer.take();
    // 448 bytes have room: "end", and 148 whole characters of the 445 bytes before it.
    assert_true(session.text(0) == text.substr(text.size() - 3 - 148 * 3));
}

void no_text_is_longer_than_16_kib(void**) {
    sl_shm_item_layout wide = two_fields();
    wide.slot_bytes = 1 << 20;
    Segment samples = sealed("wide", 1 << 20);
    Session session;
    session.peer.announce(kStream + 1, wide, samples);
    session.peer.give({3, kStream + 1, 0, 0, 0, 0, 0, 0});
    const sl_guest_job job = session.next();
    assert_int_equal(sl_guest_failed(session.guest, &job, std::string(100'000, 'x').c_str()), SL_OK);
    session.peer.take();
    assert_int_equal(reinterpret_cast<const sl_shm_item_header*>(samples.data())->error_bytes, 16384);
}

void a_job_is_given_again_until_it_is_answered(void**) {
    Session session;
    session.peer.give(job_at(1, 0, 70));
    session.peer.give(job_at(2, kSlot, 71));
    const sl_guest_job lost = session.next();
    const sl_guest_job job = session.next();
    assert_true(lost.index == 70 && job.index == 70 && job.field[0] == lost.field[0]);
    assert_int_equal(sl_guest_done(session.guest, &lost, 0), SL_OK);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_E_INVALID_ARGUMENT);
    assert_says("answered already");
    const sl_guest_job second = session.next();
    assert_true(second.index == 71);
    assert_int_equal(sl_guest_failed(session.guest, &job, "no"), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_guest_done(session.guest, &second, 0), SL_OK);
    assert_true(session.peer.take().tag == 1 && session.peer.take().tag == 2);
}

void an_item_that_waits_costs_the_time_it_waits(void**) {
    Session session;
    session.peer.give(job_at(1, 0));
    const sl_guest_job job = session.next();
    const timespec file{0, 20'000'000};  // what a slow file would do
    ::nanosleep(&file, nullptr);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    assert_true(session.peer.take().cpu_ns >= 20'000'000);
}

void an_item_that_computes_costs_its_cpu_time(void**) {
    Session session;
    session.peer.give(job_at(1, 0));
    const sl_guest_job job = session.next();
    const std::uint64_t begin = thread_cpu_ns();
    while (thread_cpu_ns() - begin < 30'000'000) {
    }
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    const sl_shm_completion completion = session.peer.take();
    const std::uint64_t passed = completion.end_ns - completion.begin_ns;
    // Not 30: the two clocks do not tick alike, and of the two the smaller is told.
    assert_true(completion.cpu_ns >= 29'000'000 && completion.cpu_ns <= passed);
}

void a_wait_ends_with_its_time(void**) {
    Session session;
    sl_guest_job job = no_job();
    const std::int64_t begin = now_ms();
    assert_int_equal(sl_guest_next(session.guest, 40, &job), SL_TIMEOUT);
    const std::int64_t took = now_ms() - begin;
    assert_true(took >= 40 && took < 5000);
}

void no_wake_up_is_lost_in_many_round_trips(void**) {
    Session session;
    std::thread worker([&] {
        sl_guest_job job = no_job();
        while (sl_guest_next(session.guest, SL_WAIT_FOREVER, &job) == SL_OK && job.index != 0)
            (void)sl_guest_done(session.guest, &job, 0);
        (void)sl_guest_done(session.guest, &job, 0);
    });
    std::minstd_rand random;
    int stalls = 0;
    for (std::uint64_t i = 20'000; i-- > 0;) {
        const std::int64_t begin = now_ms();
        session.peer.give(job_at(i, i % 16 * kSlot, i));
        for (std::uint32_t spin = random() % 1000; spin > 0; --spin) {
            [[maybe_unused]] volatile std::uint32_t here = spin;
        }
        if (session.peer.take().tag != i) break;
        stalls += now_ms() - begin >= 230 ? 1 : 0;  // the longest sleep without a call is 250 ms
    }
    worker.join();
    assert_true(stalls <= 1);  // a machine that is busy elsewhere
}

void a_stream_that_is_forgotten_is_unmapped_but_not_under_a_hold(void**) {
    Session session;
    const std::size_t mapped = maps_of_samples();
    sl_guest_job job = no_job();
    session.peer.give(job_at(1, 0));
    job = session.next();
    sl_memory* held = nullptr;
    assert_int_equal(sl_guest_hold(session.guest, &job, &held), SL_OK);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    assert_int_equal(maps_of_samples(), mapped);
    session.peer.forget(kStream);
    assert_int_equal(sl_guest_next(session.guest, 0, &job), SL_TIMEOUT);
    std::memset(job.field[1], 1, 100);  // a view that somebody kept too long
    assert_int_equal(maps_of_samples(), mapped);
    sl_memory_release(held);
    assert_int_equal(maps_of_samples(), mapped - 1);
    assert_int_equal(sl_guest_hold(session.guest, &job, &held), SL_E_INVALID_ARGUMENT);
    assert_null(held);
}

void a_forked_child_is_refused_and_takes_nothing(void**) {
    Session session;
    session.peer.give(job_at(1, 0));
    sl_guest_job job = session.next();
    const int refused = run_in_child([&] {
        sl_guest_job theirs = no_job();
        bool all = sl_guest_next(session.guest, 0, &theirs) == SL_E_FORKED &&
                   sl_guest_done(session.guest, &job, 0) == SL_E_FORKED &&
                   sl_guest_failed(session.guest, &job, "no") == SL_E_FORKED;
        sl_guest_detach(session.guest);
        return all ? 0 : 1;
    });
    assert_int_equal(refused, 0);
    assert_int_equal(sl_guest_done(session.guest, &job, 0), SL_OK);
    assert_true(session.peer.take().tag == 1);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_guest_says_who_it_is),
        cmocka_unit_test(an_item_is_written_where_the_layout_says),
        cmocka_unit_test(an_opaque_item_says_how_long_it_is),
        cmocka_unit_test(fixed_rows_have_no_payload),
        cmocka_unit_test(a_failure_leaves_its_text),
        cmocka_unit_test(of_a_long_text_the_end_is_kept_from_a_characters_first_byte),
        cmocka_unit_test(no_text_is_longer_than_16_kib),
        cmocka_unit_test(a_job_is_given_again_until_it_is_answered),
        cmocka_unit_test(an_item_that_waits_costs_the_time_it_waits),
        cmocka_unit_test(an_item_that_computes_costs_its_cpu_time),
        cmocka_unit_test(a_wait_ends_with_its_time),
        cmocka_unit_test(no_wake_up_is_lost_in_many_round_trips),
        cmocka_unit_test(a_stream_that_is_forgotten_is_unmapped_but_not_under_a_hold),
        cmocka_unit_test(a_forked_child_is_refused_and_takes_nothing),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
