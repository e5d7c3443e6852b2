// The SLEEP pair: a side that is about to sleep and a side that has just published never miss each other.
//
// The two loops are those of daemon/pool/worker.cpp and daemon/worker/attachment.cpp, over the real rings,
// words and wake-ups, in two threads so that the thread sanitizer can follow them. One job is in flight at a
// time, so both sides go to sleep before every hand-over, which is where a wake-up could be lost. A lost one
// is seen as a wait that ended by its time limit although there was something to find: it is counted and must
// not happen.
#include <poll.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "shm/spsc.h"
#include "shm/wake.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRounds = 20'000;
#else
constexpr std::uint64_t kRounds = 200'000;
#endif
constexpr std::chrono::seconds kLimit{3};  // longer than any pause of a busy machine

using Clock = std::chrono::steady_clock;

// Brings the two sides together at the moment that matters. In every other round a side stays awake until it
// sees the hand-over, so that it answers at once, while its partner is just going to sleep; a few steps more
// or less let the two meet at every point of that.
class Pace {
  public:
    explicit Pace(std::uint32_t seed) : random_(seed) {}

    template <class Visible>
    void before_sleep(Visible visible) {
        if (random_() % 2 == 0) {
            for (int i = 0; i < 20'000 && !visible(); ++i) {
            }
        }
        for (std::uint32_t i = random_() % 300; i > 0; --i) {
            [[maybe_unused]] volatile std::uint32_t here = i;
        }
    }

  private:
    std::minstd_rand random_;
};

struct Channel {
    sl_shm_worker_channel words{};
    UniqueFd wake = std::move(*make_event_fd());
    std::atomic<std::uint64_t> worker_stalls{0};
    std::atomic<std::uint64_t> worker_sleeps{0};
};

// Attachment::next_job without its socket.
sl_shm_job next_job(Channel& channel, JobConsumer& jobs) {
    sl_shm_worker_channel* shared = &channel.words;
    sl_shm_job job;
    bool timed_out = false;
    while (true) {
        const std::uint32_t calls = sl_shm_load_acquire_u32(&shared->calls);
        if (jobs.pop(job)) {
            if (timed_out) ++channel.worker_stalls;
            return job;
        }
        sl_shm_store_seq_cst_u32(&shared->worker_sleeps, 1);
        sl_shm_fence_seq_cst();
        if (sl_shm_load_acquire_u32(&shared->calls) == calls) {
            const auto start = Clock::now();
            ++channel.worker_sleeps;
            futex_wait(&shared->calls, calls, kLimit);
            timed_out = Clock::now() - start >= kLimit;
        }
        sl_shm_store_relaxed_u32(&shared->worker_sleeps, 0);
    }
}

void run_worker(Channel& channel) {
    sl_shm_worker_channel* shared = &channel.words;
    JobConsumer jobs(shared->jobs, &shared->job_tail, &shared->job_head);
    CompletionProducer completions(shared->completions, &shared->completion_tail, &shared->completion_head);
    Pace pace(1);
    for (std::uint64_t i = 0; i < kRounds; ++i) {
        pace.before_sleep([&] { return sl_shm_load_acquire_u32(&shared->job_tail) != jobs.position(); });
        const sl_shm_job job = next_job(channel, jobs);
        sl_shm_completion completion{};
        completion.tag = job.tag;
        completions.push(completion);
        sl_shm_fence_seq_cst();
        if (sl_shm_load_relaxed_u32(&shared->daemon_sleeps) != 0) ring(channel.wake.get());
    }
}

// Worker::push and Worker::flush.
void give(Channel& channel, JobProducer& jobs, std::uint64_t tag, std::uint32_t& calls) {
    sl_shm_worker_channel* shared = &channel.words;
    sl_shm_job job{};
    job.tag = tag;
    jobs.push(job);
    sl_shm_store_release_u32(&shared->calls, ++calls);
    sl_shm_fence_seq_cst();
    if (sl_shm_load_relaxed_u32(&shared->worker_sleeps) != 0) futex_wake_all(&shared->calls);
}

// The conductor's wait: flag, fence, one more look, poll. Adds to `stalls` if a wait ran out of time.
sl_shm_completion next_completion(Channel& channel, CompletionConsumer& completions, std::uint64_t& stalls) {
    sl_shm_worker_channel* shared = &channel.words;
    sl_shm_completion completion;
    while (!completions.pop(completion)) {
        sl_shm_store_seq_cst_u32(&shared->daemon_sleeps, 1);
        sl_shm_fence_seq_cst();
        const bool found = completions.pop(completion);
        pollfd entry{channel.wake.get(), POLLIN, 0};
        if (!found && ::poll(&entry, 1, static_cast<int>(kLimit / std::chrono::milliseconds(1))) == 0)
            ++stalls;
        sl_shm_store_relaxed_u32(&shared->daemon_sleeps, 0);
        quiet(channel.wake.get());
        if (found) break;
    }
    return completion;
}

void neither_daemon_nor_worker_loses_a_wake_up(void**) {
    auto channel = std::make_unique<Channel>();
    sl_shm_worker_channel* shared = &channel->words;
    JobProducer jobs(shared->jobs, &shared->job_tail, &shared->job_head);
    CompletionConsumer completions(shared->completions, &shared->completion_tail, &shared->completion_head);
    std::thread worker([&] { run_worker(*channel); });
    Pace pace(2);
    std::uint64_t stalls = 0;
    std::uint64_t wrong = 0;
    std::uint32_t calls = 0;
    for (std::uint64_t i = 0; i < kRounds; ++i) {
        give(*channel, jobs, i, calls);
        pace.before_sleep(
            [&] { return sl_shm_load_acquire_u32(&shared->completion_tail) != completions.position(); });
        wrong += next_completion(*channel, completions, stalls).tag == i ? 0 : 1;
    }
    worker.join();
    assert_int_equal(wrong, 0);
    assert_int_equal(stalls, 0);
    assert_int_equal(channel->worker_stalls.load(), 0);
    assert_true(channel->worker_sleeps.load() > 0);  // else nothing was tried
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {cmocka_unit_test(neither_daemon_nor_worker_loses_a_wake_up)};
    return cmocka_run_group_tests_name("shm/sleep protocol", tests, nullptr, nullptr);
}
