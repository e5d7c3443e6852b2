// Daemons that refuse a guest, say nothing, lie or die: each is a status, none is a crash or a wait without
// end.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "shm/error.h"
#include "shm/wake.h"
#include "tests/client/guest_peer.h"

namespace sl {
namespace {

sl_guest_job no_job() {
    sl_guest_job job{};
    job.struct_size = sizeof job;
    return job;
}

struct Session {
    GuestPeer peer;
    Segment samples = sealed("samples", 4096);
    sl_guest* guest = nullptr;
    sl_guest_job job = no_job();

    Session() { assert_int_equal(peer.attach(&guest), SL_OK); }
    ~Session() { sl_guest_detach(guest); }

    void announce() {
        peer.announce(kStream, two_fields(), samples);
        assert_int_equal(sl_guest_next(guest, 0, &job), SL_TIMEOUT);
        assert_int_equal(peer.hear().head().type, SL_MSG_MAPPED);
    }
    // What the guest makes of what was said; and once more, for the error is its end.
    void assert_ends(sl_status status, const char* what) {
        peer.told();
        assert_int_equal(sl_guest_next(guest, kPatienceMs, &job), status);
        assert_says(what);
        assert_int_equal(sl_guest_next(guest, 0, &job), status);
        assert_says(what);
        assert_int_equal(peer.hear().length, 0);  // it has hung up, so that nobody waits for it
    }
};

// ---- attaching ----

void where_no_daemon_is_a_guest_is_disconnected_and_starts_none(void**) {
    sl_guest* guest = nullptr;
    sl_connect_options options{};
    options.struct_size = sizeof options;
    options.socket = "/nonexistent/speedy.sock";
    assert_int_equal(sl_guest_attach(&options, kCrew, 1, &guest), SL_E_DISCONNECTED);
    assert_says("/nonexistent/speedy.sock");
    assert_null(guest);
    options.socket = nullptr;
    options.flags = SL_CONNECT_PRIVATE;
    ::setenv("SPEEDYLOADER_DAEMON", "/nonexistent/speedyloaderd", 1);
    assert_int_equal(sl_guest_attach(&options, kCrew, 1, &guest), SL_E_DISCONNECTED);
    ::unsetenv("SPEEDYLOADER_DAEMON");
    assert_says("no private daemon answers");
}

void arguments_are_checked(void**) {
    sl_guest* guest = nullptr;
    assert_int_equal(sl_guest_attach(nullptr, kCrew, 1, nullptr), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_guest_attach(nullptr, kCrew, 0, &guest), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_guest_next(nullptr, 0, nullptr), SL_E_INVALID_ARGUMENT);
    sl_guest_detach(nullptr);
    sl_memory_release(nullptr);
    Session session;
    sl_guest_job unsized{};
    assert_int_equal(sl_guest_next(session.guest, 0, &unsized), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_guest_next(session.guest, 0, nullptr), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_guest_done(session.guest, nullptr, 0), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_guest_failed(session.guest, &session.job, nullptr), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_guest_done(session.guest, &session.job, 0), SL_E_INVALID_ARGUMENT);  // none was given
}

void a_refusal_has_the_daemons_words(void**) {
    GuestPeer peer;
    sl_guest* guest = nullptr;
    auto refuse = [&] {
        peer.accept_hello();
        auto error = make_message<sl_msg_error>(SL_MSG_ERROR, peer.guest().head.request);
        error.status = SL_E_DENIED;
        copy_text(error.message, "the crew is another user's");
        (void)send_struct(peer.socket(), error);
    };
    assert_int_equal(peer.attach(&guest, refuse), SL_E_DENIED);
    assert_null(guest);
    assert_says("the crew is another user's");
}

void a_daemon_that_says_nothing_is_not_waited_for_longer_than_asked(void**) {
    GuestPeer peer;
    sl_guest* guest = nullptr;
    assert_int_equal(peer.attach(
                         &guest, [&] { peer.accept_hello(); }, 100),
                     SL_TIMEOUT);
    assert_null(guest);
}

void a_daemon_that_hangs_up_ends_the_attaching(void**) {
    GuestPeer peer;
    sl_guest* guest = nullptr;
    auto leave = [&] {
        peer.accept_hello();
        peer.send_segment(SL_SEGMENT_WAKE, 0, 0, peer.bell());
        peer.hang_up();
    };
    assert_int_equal(peer.attach(&guest, leave), SL_E_DISCONNECTED);
}

void a_channel_that_could_be_cut_is_refused(void**) {
    GuestPeer peer;
    sl_guest* guest = nullptr;
    UniqueFd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(::ftruncate(loose.get(), sizeof(sl_shm_worker_channel)), 0);
    auto send = [&] {
        peer.accept_hello();
        peer.send_segment(SL_SEGMENT_CHANNEL, 0, sizeof(sl_shm_worker_channel), loose.get());
    };
    assert_int_equal(peer.attach(&guest, send), SL_E_PROTOCOL);
    assert_says("not sealed");
    auto nothing = [&] {
        peer.accept_hello();
        peer.send_segment(SL_SEGMENT_CHANNEL, 0, 0, -1);
    };
    assert_int_equal(peer.attach(&guest, nothing), SL_E_PROTOCOL);
    assert_says("without descriptor");
}

// ---- lies about streams ----

struct Lie {
    const char* what;
    void (*tell)(sl_shm_item_layout& layout);
};

constexpr Lie kLies[] = {
    {"number of fields", [](sl_shm_item_layout& layout) { layout.fields = 0; }},
    {"number of fields", [](sl_shm_item_layout& layout) { layout.fields = 17; }},
    {"number of fields", [](sl_shm_item_layout& layout) { layout.flags = SL_SHM_ITEM_OPAQUE; }},
    {"flag", [](sl_shm_item_layout& layout) { layout.flags = 2; }},
    {"slot length", [](sl_shm_item_layout& layout) { layout.slot_bytes = 63; }},
    {"field offset", [](sl_shm_item_layout& layout) { layout.field[0].offset = 0; }},
    {"field offset", [](sl_shm_item_layout& layout) { layout.field[0].offset = 65; }},
    {"field offset", [](sl_shm_item_layout& layout) { layout.field[1].offset = 576; }},
    {"field offset", [](sl_shm_item_layout& layout) { layout.field[1].offset = UINT64_MAX - 63; }},
    {"field length", [](sl_shm_item_layout& layout) { layout.field[1].bytes = 385; }},
    {"field length", [](sl_shm_item_layout& layout) { layout.field[1].bytes = UINT64_MAX; }},
};

void an_impossible_layout_ends_the_guest(void**) {
    for (const Lie& lie : kLies) {
        Session session;
        sl_shm_item_layout layout = two_fields();
        lie.tell(layout);
        session.peer.send_layout(kStream, layout);
        session.assert_ends(SL_E_PROTOCOL, lie.what);
    }
}

void a_layout_of_another_version_says_so(void**) {
    Session session;
    session.peer.send_layout(kStream, two_fields(), sizeof(sl_shm_item_layout) + 8);
    session.assert_ends(SL_E_VERSION, "another way");
}

void samples_that_were_not_announced_end_the_guest(void**) {
    Session session;
    session.peer.send_segment(SL_SEGMENT_SAMPLES, kStream, session.samples.size(),
                              session.samples.writable_fd());
    session.assert_ends(SL_E_PROTOCOL, "not announced");
}

void a_stream_that_is_announced_twice_ends_the_guest(void**) {
    Session session;
    session.announce();
    session.peer.send_layout(kStream, two_fields());
    session.assert_ends(SL_E_PROTOCOL, "twice");
}

void samples_of_another_size_than_stated_end_the_guest(void**) {
    Session session;
    session.peer.send_layout(kStream, two_fields());
    session.peer.send_segment(SL_SEGMENT_SAMPLES, kStream, session.samples.size() * 2,
                              session.samples.writable_fd());
    session.assert_ends(SL_E_PROTOCOL, "not 8192 as stated");
}

void a_second_channel_a_bell_or_a_pixel_segment_ends_the_guest(void**) {
    for (std::uint32_t kind : {SL_SEGMENT_CHANNEL, SL_SEGMENT_WAKE, SL_SEGMENT_INPUT, SL_SEGMENT_BATCHES}) {
        Session session;
        session.peer.send_segment(kind, 0, session.samples.size(), session.samples.writable_fd());
        session.assert_ends(SL_E_PROTOCOL, "unexpected segment");
    }
}

void a_message_that_is_none_or_not_a_guests_ends_it(void**) {
    Session session;
    auto reply = make_message<sl_msg_open_reply>(SL_MSG_OPEN_REPLY, 1);
    (void)send_struct(session.peer.socket(), reply);
    session.assert_ends(SL_E_PROTOCOL, "message of type 5");
    Session other;
    sl_message stub{};
    stub.type = SL_MSG_FORGET;
    (void)send_message(other.peer.socket(), &stub, sizeof stub);
    other.assert_ends(SL_E_PROTOCOL, "only 16 bytes");
}

void forgetting_what_nobody_knows_is_nothing(void**) {
    Session session;
    session.peer.forget(7);
    assert_int_equal(sl_guest_next(session.guest, 0, &session.job), SL_TIMEOUT);
    session.announce();
}

// ---- lies in the rings ----

void a_job_outside_the_segments_fails_and_the_next_one_is_given(void**) {
    Session session;
    session.announce();
    const std::uint64_t wrong[] = {4096, 3840, 8, UINT64_MAX - 255};
    for (std::uint64_t offset : wrong) {
        session.peer.give({offset, kStream, 0, 0, offset, 0, 0, 1});
        assert_int_equal(sl_guest_next(session.guest, 0, &session.job), SL_TIMEOUT);
        const sl_shm_completion completion = session.peer.take();
        assert_true(completion.tag == offset);
        assert_int_equal(completion.error_kind, SampleErrorKind::kIo);
    }
    session.peer.give({1, kStream + 1, 0, 0, 0, 0, 0, 1});  // of a stream that it does not know
    session.peer.give({2, kStream, 0, 0, 3584, 0, 0, 1});
    assert_int_equal(sl_guest_next(session.guest, 0, &session.job), SL_OK);
    assert_int_equal(session.peer.take().error_kind, SampleErrorKind::kIo);
    assert_int_equal(sl_guest_done(session.guest, &session.job, 0), SL_OK);
    assert_true(session.peer.take().tag == 2);
}

void a_job_ring_that_runs_over_ends_the_guest(void**) {
    Session session;
    session.announce();
    sl_shm_store_release_u32(&session.peer.channel()->job_tail, SL_SHM_JOBS + 1);
    session.assert_ends(SL_E_PROTOCOL, "ring of jobs");
}

void a_completion_ring_without_room_ends_the_guest(void**) {
    Session session;
    session.announce();
    session.peer.give({1, kStream, 0, 0, 0, 0, 0, 1});
    assert_int_equal(sl_guest_next(session.guest, 0, &session.job), SL_OK);
    sl_shm_store_release_u32(&session.peer.channel()->completion_head, 5);  // of one that was never written
    assert_int_equal(sl_guest_done(session.guest, &session.job, 0), SL_E_PROTOCOL);
    session.assert_ends(SL_E_PROTOCOL, "ring of completions");
}

// ---- the end ----

void a_daemon_that_dies_is_noticed_by_a_guest_that_sleeps(void**) {
    Session session;
    session.announce();
    std::int64_t ended = 0;
    sl_status status = SL_OK;
    std::thread waiter([&] {
        status = sl_guest_next(session.guest, SL_WAIT_FOREVER, &session.job);
        ended = now_ms();
    });
    while (sl_shm_load_acquire_u32(&session.peer.channel()->worker_sleeps) == 0)
        std::this_thread::yield();
    const std::int64_t begin = now_ms();
    session.peer.hang_up();
    waiter.join();
    assert_int_equal(status, SL_E_DISCONNECTED);
    assert_true(ended - begin < 2000);
    assert_int_equal(sl_guest_next(session.guest, SL_WAIT_FOREVER, &session.job), SL_E_DISCONNECTED);
}

void a_daemon_that_dies_while_an_item_is_made_is_noticed_after_it(void**) {
    Session session;
    session.announce();
    session.peer.give({1, kStream, 0, 0, 0, 0, 0, 1});
    assert_int_equal(sl_guest_next(session.guest, 0, &session.job), SL_OK);
    session.peer.hang_up();
    std::memset(session.job.field[1], 1, 100);
    assert_int_equal(sl_guest_done(session.guest, &session.job, 0), SL_OK);
    assert_int_equal(sl_guest_next(session.guest, SL_WAIT_FOREVER, &session.job), SL_E_DISCONNECTED);
}

void a_guest_that_leaves_hangs_up(void**) {
    Session session;
    session.announce();
    session.peer.give({1, kStream, 0, 0, 0, 0, 0, 1});
    assert_int_equal(sl_guest_next(session.guest, 0, &session.job), SL_OK);
    sl_guest_detach(session.guest);
    session.guest = nullptr;
    assert_int_equal(session.peer.hear().length, 0);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    ::setenv("SPEEDYLOADER_PRIVATE_NAME", ("lies-" + std::to_string(::getpid())).c_str(), 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(where_no_daemon_is_a_guest_is_disconnected_and_starts_none),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(a_refusal_has_the_daemons_words),
        cmocka_unit_test(a_daemon_that_says_nothing_is_not_waited_for_longer_than_asked),
        cmocka_unit_test(a_daemon_that_hangs_up_ends_the_attaching),
        cmocka_unit_test(a_channel_that_could_be_cut_is_refused),
        cmocka_unit_test(an_impossible_layout_ends_the_guest),
        cmocka_unit_test(a_layout_of_another_version_says_so),
        cmocka_unit_test(samples_that_were_not_announced_end_the_guest),
        cmocka_unit_test(a_stream_that_is_announced_twice_ends_the_guest),
        cmocka_unit_test(samples_of_another_size_than_stated_end_the_guest),
        cmocka_unit_test(a_second_channel_a_bell_or_a_pixel_segment_ends_the_guest),
        cmocka_unit_test(a_message_that_is_none_or_not_a_guests_ends_it),
        cmocka_unit_test(forgetting_what_nobody_knows_is_nothing),
        cmocka_unit_test(a_job_outside_the_segments_fails_and_the_next_one_is_given),
        cmocka_unit_test(a_job_ring_that_runs_over_ends_the_guest),
        cmocka_unit_test(a_completion_ring_without_room_ends_the_guest),
        cmocka_unit_test(a_daemon_that_dies_is_noticed_by_a_guest_that_sleeps),
        cmocka_unit_test(a_daemon_that_dies_while_an_item_is_made_is_noticed_after_it),
        cmocka_unit_test(a_guest_that_leaves_hangs_up),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
