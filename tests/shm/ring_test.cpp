// The rings between daemon and worker: everything arrives once, in order and whole, between threads and
// between processes, and a partner that garbles its index can break the ring but not the memory around it.
#include <sched.h>

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "shm/segment.h"
#include "shm/spsc.h"
#include "tests/cmocka_cpp.h"
#include "tests/shm/child.h"

namespace sl {
namespace {

constexpr std::uint64_t kEntries = 1'000'000;

// A job whose every field follows from its number, so that a torn one shows.
sl_shm_job job_number(std::uint64_t i) {
    return {i, i * 3, i * 5, i * 7, i * 11, ~i, i ^ 0x5555, i + 0x100000000ULL};
}

bool same(const sl_shm_job& a, const sl_shm_job& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

void produce(sl_shm_worker_channel* channel, std::uint64_t count) {
    JobProducer producer(channel->jobs, &channel->job_tail, &channel->job_head);
    for (std::uint64_t i = 0; i < count; ++i) {
        while (producer.free() == 0)
            ::sched_yield();
        producer.push(job_number(i));
    }
}

// Entries that came wrong; stops at the first broken look.
std::uint64_t consume(sl_shm_worker_channel* channel, std::uint64_t count) {
    JobConsumer consumer(channel->jobs, &channel->job_tail, &channel->job_head);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        sl_shm_job job{};
        while (!consumer.pop(job)) {
            if (consumer.broken()) return count;
            ::sched_yield();
        }
        wrong += same(job, job_number(i)) ? 0 : 1;
    }
    return wrong;
}

void a_million_entries_cross_two_threads_in_order_and_whole(void**) {
    auto channel = std::make_unique<sl_shm_worker_channel>();
    std::uint64_t wrong = kEntries;
    std::thread consumer([&] { wrong = consume(channel.get(), kEntries); });
    produce(channel.get(), kEntries);
    consumer.join();
    assert_int_equal(wrong, 0);
}

void a_million_entries_cross_two_processes_in_order_and_whole(void**) {
    auto segment = Segment::create("test", sizeof(sl_shm_worker_channel));
    assert_true(segment.has_value());
    const pid_t child = start_child([&] {
        auto map = Mapping::map(segment->writable_fd(), segment->size(), Access::kReadWrite);
        if (!map) return 2;
        return consume(reinterpret_cast<sl_shm_worker_channel*>(map->data()), kEntries) == 0 ? 0 : 3;
    });
    assert_true(child > 0);
    produce(reinterpret_cast<sl_shm_worker_channel*>(segment->data()), kEntries);
    assert_int_equal(end_of_child(child), 0);
}

struct Ring {
    std::vector<sl_shm_job> entries =
        std::vector<sl_shm_job>(SL_SHM_JOBS);  // on its own: a sanitizer sees its ends
    std::uint32_t tail = 0;
    std::uint32_t head = 0;
    JobProducer producer{entries.data(), &tail, &head};
    JobConsumer consumer{entries.data(), &tail, &head};
};

void a_ring_takes_as_many_entries_as_it_has_places_and_gives_them_back_in_order(void**) {
    Ring ring;
    sl_shm_job job{};
    assert_false(ring.consumer.pop(job));
    for (std::uint32_t i = 0; i < SL_SHM_JOBS; ++i) {
        assert_int_equal(ring.producer.free(), SL_SHM_JOBS - i);
        ring.producer.push(job_number(i));
    }
    assert_int_equal(ring.producer.free(), 0);
    for (std::uint32_t i = 0; i < SL_SHM_JOBS; ++i) {
        assert_true(ring.consumer.pop(job));
        assert_true(same(job, job_number(i)));
    }
    assert_false(ring.consumer.pop(job));
    assert_int_equal(ring.producer.free(), SL_SHM_JOBS);
}

void a_tail_that_no_producer_could_have_written_is_broken_and_gives_nothing(void**) {
    std::mt19937_64 random(4);
    for (int round = 0; round < 10000; ++round) {
        Ring ring;
        for (std::uint64_t i = 0; i < round % 40U; ++i) {
            sl_shm_job job{};
            ring.producer.push(job_number(i));
            assert_true(ring.consumer.pop(job));
        }
        const std::uint32_t position = ring.consumer.position();
        ring.tail =
            position + SL_SHM_JOBS + 1 +
            static_cast<std::uint32_t>(random() % (std::numeric_limits<std::uint32_t>::max() - SL_SHM_JOBS));
        sl_shm_job job = job_number(99);
        assert_true(ring.consumer.broken());
        assert_false(ring.consumer.pop(job));
        assert_true(same(job, job_number(99)));
        assert_int_equal(ring.consumer.position(), position);
        assert_int_equal(ring.head, position);
    }
}

void a_tail_that_goes_backwards_is_broken(void**) {
    Ring ring;
    sl_shm_job job{};
    ring.producer.push(job_number(0));
    assert_true(ring.consumer.pop(job));
    assert_false(ring.consumer.broken());
    ring.tail = 0;
    assert_true(ring.consumer.broken());
    assert_false(ring.consumer.pop(job));
}

void a_head_that_no_consumer_could_have_written_leaves_no_room(void**) {
    Ring ring;
    ring.producer.push(job_number(0));
    for (std::uint32_t head : {2U, 9U, 1U << 31, 0xfffffff0U}) {
        ring.head = head;
        assert_int_equal(ring.producer.free(), 0);
    }
    ring.head = 1;
    assert_int_equal(ring.producer.free(), SL_SHM_JOBS);
}

void LDR_14_offsets_beyond_four_gigabytes_survive_a_job_and_a_completion(void**) {
    constexpr std::uint64_t kFar = 5'000'000'000;
    auto channel = std::make_unique<sl_shm_worker_channel>();
    JobProducer jobs(channel->jobs, &channel->job_tail, &channel->job_head);
    JobConsumer taken(channel->jobs, &channel->job_tail, &channel->job_head);
    jobs.push({1, 2, kFar, kFar + 1, kFar + 2, 3, 4, kFar + 3});
    sl_shm_job job{};
    assert_true(taken.pop(job));
    assert_true(job.input.offset == kFar && job.input.bytes == kFar + 1);
    assert_true(job.output_offset == kFar + 2 && job.sample_id == kFar + 3);

    CompletionProducer done(channel->completions, &channel->completion_tail, &channel->completion_head);
    CompletionConsumer reaped(channel->completions, &channel->completion_tail, &channel->completion_head);
    sl_shm_completion completion{};
    completion.error_offset = static_cast<std::int64_t>(kFar);
    completion.cpu_ns = kFar;
    done.push(completion);
    sl_shm_completion back{};
    assert_true(reaped.pop(back));
    assert_true(back.error_offset == static_cast<std::int64_t>(kFar) && back.cpu_ns == kFar);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        // The one that forks goes first, while the program has one thread.
        cmocka_unit_test(a_million_entries_cross_two_processes_in_order_and_whole),
        cmocka_unit_test(a_million_entries_cross_two_threads_in_order_and_whole),
        cmocka_unit_test(a_ring_takes_as_many_entries_as_it_has_places_and_gives_them_back_in_order),
        cmocka_unit_test(a_tail_that_no_producer_could_have_written_is_broken_and_gives_nothing),
        cmocka_unit_test(a_tail_that_goes_backwards_is_broken),
        cmocka_unit_test(a_head_that_no_consumer_could_have_written_leaves_no_room),
        cmocka_unit_test(LDR_14_offsets_beyond_four_gigabytes_survive_a_job_and_a_completion),
    };
    return cmocka_run_group_tests_name("shm/ring", tests, nullptr, nullptr);
}
