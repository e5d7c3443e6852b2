// Waking across processes: a sleeper on a read-only map is woken, and an event descriptor counts rings.
#include "shm/wake.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "shm/layout.h"
#include "shm/segment.h"
#include "tests/cmocka_cpp.h"
#include "tests/shm/child.h"

namespace sl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kForEver{60};
constexpr std::chrono::seconds kPatience{20};

// The scheduler's letter for a process: 'R' running, 'S' asleep, 'Z' ended.
char state_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number;
    std::string name;
    char state = '?';
    file >> number >> name >> state;
    return state;
}

bool becomes_asleep(pid_t pid) {
    const auto end = Clock::now() + kPatience;
    while (Clock::now() < end) {
        const char state = state_of(pid);
        if (state == 'S') return true;
        if (state == 'Z') return false;
        ::sched_yield();
    }
    return false;
}

// Sleeps on word 0 of a read-only map until it is 1. 0 if a wake-up ended it, 3 if only patience did.
int sleep_on_a_read_only_map(const Segment& segment, int ready) {
    auto fd = segment.read_only_fd();
    if (!fd) return 4;
    auto map = Mapping::map(fd->get(), segment.size(), Access::kReadOnly);
    if (!map) return 5;
    const auto* word = reinterpret_cast<const std::uint32_t*>(map->data());
    ring(ready);
    const auto start = Clock::now();
    while (sl_shm_load_acquire_u32(word) == 0)
        futex_wait(word, 0, kForEver);
    return Clock::now() - start < kForEver / 2 ? 0 : 3;
}

void wait_for_ring(int event) {
    pollfd entry{event, POLLIN, 0};
    assert_int_equal(::poll(&entry, 1, 20000), 1);
}

void a_process_that_sleeps_on_a_read_only_map_is_woken_by_the_writer(void**) {
    auto segment = Segment::create("test", 4096);
    assert_true(segment.has_value());
    assert_true(segment->seal_against_writers().has_value());
    auto ready = make_event_fd();
    assert_true(ready.has_value());
    const pid_t child = start_child([&] { return sleep_on_a_read_only_map(*segment, ready->get()); });
    wait_for_ring(ready->get());
    assert_true(becomes_asleep(child));
    auto* word = reinterpret_cast<std::uint32_t*>(segment->data());
    sl_shm_store_release_u32(word, 1);
    futex_wake_all(word);
    assert_int_equal(end_of_child(child), 0);
}

void a_word_that_has_moved_on_is_not_slept_on(void**) {
    const std::uint32_t word = 7;
    const auto start = Clock::now();
    futex_wait(&word, 6, kForEver);
    assert_true(Clock::now() - start < kForEver / 2);
}

void a_wait_ends_at_its_time_limit(void**) {
    const std::uint32_t word = 7;
    const auto start = Clock::now();
    futex_wait(&word, 7, std::chrono::milliseconds(30));
    assert_true(Clock::now() - start >= std::chrono::milliseconds(30));
    futex_wait(&word, 7, std::chrono::milliseconds(1200));
    assert_true(Clock::now() - start >= std::chrono::milliseconds(1230));
}

bool readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

void an_event_is_readable_from_its_first_ring_until_it_is_quieted(void**) {
    auto event = make_event_fd();
    assert_true(event.has_value());
    assert_false(readable(event->get()));
    for (int i = 0; i < 5; ++i)
        ring(event->get());
    assert_true(readable(event->get()));
    quiet(event->get());
    assert_false(readable(event->get()));
    quiet(event->get());  // nothing there: must not block
}

void a_full_event_can_be_rung_again_without_blocking(void**) {
    auto event = make_event_fd();
    assert_true(event.has_value());
    const std::uint64_t nearly_full = 0xfffffffffffffffeULL;
    assert_int_equal(::write(event->get(), &nearly_full, sizeof nearly_full), sizeof nearly_full);
    ring(event->get());
    assert_true(readable(event->get()));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_sleeps_on_a_read_only_map_is_woken_by_the_writer),
        cmocka_unit_test(a_word_that_has_moved_on_is_not_slept_on),
        cmocka_unit_test(a_wait_ends_at_its_time_limit),
        cmocka_unit_test(an_event_is_readable_from_its_first_ring_until_it_is_quieted),
        cmocka_unit_test(a_full_event_can_be_rung_again_without_blocking),
    };
    return cmocka_run_group_tests_name("shm/wake", tests, nullptr, nullptr);
}
