// Daemon and worker across a process border: the real Worker gives jobs, the real Attachment takes them.
//
// No wake-up is lost: the worker's longest sleep is a second, so a lost one would show as a round trip of a
// second. Offsets of more than four gigabytes come back whole (LDR-14). A worker ends with its daemon.
#include <poll.h>
#include <sys/wait.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>

#include "daemon/plan/pipeline.h"
#include "daemon/pool/worker.h"
#include "shm/wake.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kStall{900};
constexpr int kPatienceMs = 20000;
constexpr std::uint64_t kStream = 42;

bool wait_readable(int fd, int milliseconds) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, milliseconds) == 1;
}

Received next_message(Worker& worker, Packet& packet) {
    std::string why;
    while (true) {
        const Received got = receive(worker.socket(), packet, why, Carry::kDescriptor);
        if (got != Received::kNothing) return got;
        if (!wait_readable(worker.socket(), kPatienceMs)) return Received::kNothing;
    }
}

// A worker process that has said hello and has been greeted.
struct Fixture {
    Segment input;
    Segment samples;
    Pipeline pipeline;
    std::unique_ptr<Packet> packet = std::make_unique<Packet>();
    Result<Worker> worker = Worker::start(SL_ECHO_WORKER);

    Fixture() {
        pipeline.height = pipeline.width = 16;
        input = std::move(*Segment::create("input", 1U << 20));
        samples = std::move(*Segment::create("samples", 1U << 20));
        assert_true(worker.has_value());
        assert_true(next_message(*worker, *packet) == Received::kMessage);
        assert_int_equal(packet->head().type, SL_MSG_HELLO);
        assert_true(worker->greet(packet->head().request, 7, input).has_value());
    }
    ~Fixture() {
        if (worker->pidfd() < 0) return;  // moved away
        worker->kill();
        ::waitpid(worker->pid(), nullptr, 0);
    }

    void announce() {
        assert_true(worker->announce(kStream, {std::as_bytes(std::span(&pipeline, 1)), nullptr, &samples})
                        .has_value());
        assert_true(next_message(*worker, *packet) == Received::kMessage);
        assert_int_equal(packet->head().type, SL_MSG_MAPPED);
        assert_true(packet->as<sl_msg_stream>()->stream_id == kStream);
    }

    void give(const sl_shm_job& job) {
        worker->push(job);
        worker->flush();
    }

    // As the conductor waits: looks, raises its flag, looks again, polls.
    sl_shm_completion take() {
        sl_shm_completion completion{};
        while (!worker->pop(completion)) {
            assert_false(worker->broken());
            worker->set_sleeping(SL_SHM_SLEEPS);
            const bool found = worker->pop(completion);
            const bool rung = found || wait_readable(worker->wake_fd(), kPatienceMs);
            worker->set_sleeping(0);
            quiet(worker->wake_fd());
            assert_true(rung);
            if (found) break;
        }
        return completion;
    }
};

void no_wake_up_is_lost_in_many_round_trips(void**) {
    Fixture fixture;
    fixture.announce();
    std::uint64_t stalls = 0;
    std::minstd_rand random;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        const auto start = Clock::now();
        fixture.give({i, kStream, 0, 16, 0, 0, 0, i});
        // Every other time awake until the answer is there, so that the next job comes at once.
        sl_shm_completion completion{};
        bool found = false;
        for (int spin = i % 2 == 0 ? 20'000 : 0; spin > 0 && !found; --spin)
            found = fixture.worker->pop(completion);
        for (std::uint32_t spin = random() % 1000; spin > 0; --spin) {
            [[maybe_unused]] volatile std::uint32_t here = spin;
        }
        if (!found) completion = fixture.take();
        assert_int_equal(completion.tag, i);
        stalls += Clock::now() - start > kStall ? 1 : 0;
    }
    assert_int_equal(stalls, 0);
    assert_int_equal(fixture.worker->completed(), 100'000);
    assert_true(fixture.worker->held().empty());
}

void a_message_between_jobs_is_read_before_the_next_job(void**) {
    Fixture fixture;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const auto start = Clock::now();
        fixture.announce();
        fixture.give({i, kStream, 0, 16, 0, 0, 0, i});
        assert_int_equal(fixture.take().width, 1);
        fixture.worker->forget(kStream);
        fixture.give({i, kStream, 0, 16, 0, 0, 0, i});
        assert_int_equal(fixture.take().width, 0);
        assert_true(Clock::now() - start < kStall);
    }
}

void LDR_14_an_offset_beyond_four_gigabytes_reaches_the_worker_and_comes_back(void**) {
    Fixture fixture;
    fixture.announce();
    fixture.give({1, kStream, 5'000'000'000, 16, 6'000'000'000, 0, 0, 1});
    const sl_shm_completion completion = fixture.take();
    assert_true(completion.error_offset == 5'000'000'000);
    assert_true(completion.cpu_ns == 6'000'000'000);
    assert_int_equal(completion.height, 0);  // outside the input segment: nothing to read there
}

void a_range_that_wraps_around_is_outside(void**) {
    Fixture fixture;
    fixture.announce();
    struct {
        std::uint64_t offset;
        std::uint64_t bytes;
        std::uint32_t inside;
    } const cases[] = {{0, 1U << 20, 1},
                       {1, 1U << 20, 0},
                       {(1U << 20) - 1, 1, 1},
                       {16, ~std::uint64_t{0}, 0},
                       {~std::uint64_t{0}, 2, 0}};
    for (const auto& c : cases) {
        fixture.give({1, kStream, c.offset, c.bytes, 0, 0, 0, 1});
        assert_int_equal(fixture.take().height, c.inside);
    }
}

void the_ring_full_of_jobs_is_answered_in_order(void**) {
    Fixture fixture;
    fixture.announce();
    for (std::uint64_t i = 0; i < SL_SHM_JOBS; ++i)
        fixture.worker->push({i, kStream, 0, 16, 0, 0, 0, i});
    assert_int_equal(fixture.worker->held().size(), SL_SHM_JOBS);
    fixture.worker->flush();
    for (std::uint64_t i = 0; i < SL_SHM_JOBS; ++i)
        assert_int_equal(fixture.take().tag, i);
}

// A header's answer waits for the next sample's, unless the daemon sleeps so lightly that it wants to know.
void a_headers_answer_rings_for_a_light_sleeper_only(void**) {
    Fixture fixture;
    fixture.announce();
    const sl_shm_job header{1, kStream, 0, 16, SL_SHM_NO_OUTPUT, 0, 0, 1};
    const sl_shm_job sample{2, kStream, 0, 16, 0, 0, 0, 2};
    sl_shm_completion completion{};
    for (int i = 0; i < 50; ++i) {
        quiet(fixture.worker->wake_fd());
        fixture.worker->set_sleeping(SL_SHM_SLEEPS);
        fixture.give(header);
        while (!fixture.worker->pop(completion))
            assert_false(fixture.worker->broken());
        assert_int_equal(completion.tag, 1);
        // It has gone on to its next job by the time that it answers it; nothing has rung before.
        assert_false(wait_readable(fixture.worker->wake_fd(), 0));
        fixture.give(sample);
        assert_true(wait_readable(fixture.worker->wake_fd(), kPatienceMs));
        assert_true(fixture.worker->pop(completion));
        assert_int_equal(completion.tag, 2);
        quiet(fixture.worker->wake_fd());
        fixture.worker->set_sleeping(SL_SHM_SLEEPS_LIGHTLY);
        fixture.give(header);
        assert_true(wait_readable(fixture.worker->wake_fd(), kPatienceMs));
        assert_true(fixture.worker->pop(completion));
        fixture.worker->set_sleeping(0);
    }
}

void a_worker_ends_when_its_daemon_has_gone(void**) {
    Fixture fixture;
    fixture.announce();
    fixture.give({1, kStream, 0, 16, 0, 0, 0, 1});
    fixture.take();  // it is at its job loop now
    const pid_t pid = fixture.worker->pid();
    {
        const Worker gone = std::move(*fixture.worker);  // with all that the daemon held of it
    }
    int status = 0;
    assert_int_equal(::waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void a_program_that_is_not_there_is_an_error_that_names_it(void**) {
    auto worker = Worker::start("/does/not/exist");
    assert_false(worker.has_value());
    assert_true(worker.error().message.find("/does/not/exist") != std::string::npos);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_is_lost_in_many_round_trips),
        cmocka_unit_test(a_message_between_jobs_is_read_before_the_next_job),
        cmocka_unit_test(LDR_14_an_offset_beyond_four_gigabytes_reaches_the_worker_and_comes_back),
        cmocka_unit_test(a_range_that_wraps_around_is_outside),
        cmocka_unit_test(the_ring_full_of_jobs_is_answered_in_order),
        cmocka_unit_test(a_headers_answer_rings_for_a_light_sleeper_only),
        cmocka_unit_test(a_worker_ends_when_its_daemon_has_gone),
        cmocka_unit_test(a_program_that_is_not_there_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests_name("shm/worker channel", tests, nullptr, nullptr);
}
