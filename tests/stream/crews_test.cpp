// Crews: every user's native streams have workers and memory of their own, which end when they are not needed
// and go to nobody else; and no crew has more than its budget.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "daemon/stream/crew.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;
constexpr uid_t kAlice = 61'001;
constexpr uid_t kBob = 61'002;

// Crews of real worker processes, without a conductor.
class Fixture {
  public:
    explicit Fixture(std::uint64_t budget = 64 * kMiB)
        : loop_(*EventLoop::create()),
          budget_(budget),
          crews_(*loop_, budget_,
                 {.worker_program = SL_WORKER,
                  .workers = 2,
                  .cores = 2,
                  .input_bytes = kMiB,
                  .quarantine_file = "",
                  .boot_id = 1},
                 [](Crew&) {
                     return WorkerPoolEvents{.completed = [](const sl_shm_completion&, std::size_t) {},
                                             .looked = [](const sl_shm_completion&) {},
                                             .lost = [](const LostJob&) {},
                                             .capacity = [] {},
                                             .failed = [](const Error&) {}};
                 }) {
        if (auto started = crews_.start_home(); !started) fail_msg("%s", started.error().message.c_str());
    }
    ~Fixture() { crews_.clear(); }
    Crews& crews() { return crews_; }
    MemoryBudget& budget() { return budget_; }
    Crew& native(uid_t uid) {
        auto crew = crews_.native(uid);
        if (!crew) fail_msg("%s", crew.error().message.c_str());
        return **crew;
    }
    // Turns the loop until `done`.
    template <class Done>
    void turn_until(Done done) {
        loop_->on_idle(
            [&] {
                crews_.sweep();
                const bool over = done();
                if (over) loop_->stop();
                return over;
            },
            [] {});
        loop_->run();
    }

  private:
    std::unique_ptr<EventLoop> loop_;
    MemoryBudget budget_;
    Crews crews_;
};

std::vector<pid_t> pids_of(const Crew& crew) {
    std::vector<pid_t> pids;
    for (const WorkerStatus& worker : crew.pool->status())
        pids.push_back(worker.pid);
    return pids;
}

bool runs(pid_t pid) {
    return ::kill(pid, 0) == 0 || errno != ESRCH;
}

void each_user_has_a_crew_a_domain_and_workers_of_its_own(void**) {
    Fixture fixture;
    Crew& home = fixture.crews().home();
    Crew& alice = fixture.native(kAlice);
    Crew& bob = fixture.native(kBob);
    assert_true(home.uid == ::geteuid() && &fixture.native(::geteuid()) == &home &&
                &fixture.native(0) == &home);
    assert_true(&fixture.native(kAlice) == &alice && &alice != &bob && &alice != &home);
    assert_true(alice.domain != bob.domain && alice.domain != home.domain);
    assert_true(alice.domain->input.segment().data() != bob.domain->input.segment().data());
    for (pid_t pid : pids_of(alice)) {
        for (const Crew* other : {&home, &bob})
            assert_int_equal(std::ranges::count(pids_of(*other), pid), 0);
    }
    assert_int_equal(home.place, 0);
    assert_int_equal(alice.place, 1);
    assert_int_equal(bob.place, 2);
    assert_true(fixture.budget().reserved() == 3 * kMiB && fixture.crews().input().capacity == 3 * kMiB);
}

void a_user_with_the_number_of_a_guest_crew_is_not_taken_for_it(void**) {
    Fixture fixture;
    auto guests = fixture.crews().guests(kAlice, kBob);
    assert_true(guests.has_value() && !(*guests)->is_native());
    assert_true(*guests != &fixture.native(kAlice));
    auto others = fixture.crews().guests(kAlice, kAlice);
    assert_true(!others && others.error().status == Status::kDenied);
}

void a_crew_that_rests_leaves_with_its_workers_and_memory_and_the_home_crew_stays(void**) {
    Fixture fixture;
    const auto began = EventLoop::Clock::now();
    const auto pids = pids_of(fixture.native(kAlice));
    fixture.native(kBob).streams = 1;
    fixture.turn_until([&] { return fixture.crews().all().size() == 2; });
    assert_true(EventLoop::Clock::now() - began >= std::chrono::seconds(4));
    assert_true(fixture.budget().reserved() == 2 * kMiB);
    fixture.turn_until([&] { return !runs(pids[0]) && !runs(pids[1]); });
    assert_true(fixture.crews().worker_deaths() == 0);
    assert_int_equal(fixture.native(kAlice).place, 1);  // the one that has become free
    assert_int_equal(pids_of(fixture.crews().home()).size(), 2);
}

void a_domain_beyond_the_budget_is_refused_and_one_that_rests_makes_room(void**) {
    Fixture fixture(2 * kMiB);
    fixture.native(kAlice).streams = 1;
    const auto pids = pids_of(fixture.native(kAlice));
    auto refused = fixture.crews().native(kBob);
    assert_true(!refused && refused.error().status == Status::kBudget);
    assert_non_null(std::strstr(refused.error().message.c_str(), "(1048576 bytes)"));
    assert_non_null(std::strstr(refused.error().message.c_str(), "(2097152 bytes)"));
    assert_true(fixture.budget().reserved() == 2 * kMiB);
    fixture.native(kAlice).streams = 0;
    assert_true(fixture.crews().native(kBob).has_value());
    assert_true(fixture.budget().reserved() == 2 * kMiB);
    assert_int_equal(fixture.crews().all().size(), 2);
    assert_false(fixture.crews().end_resting(&fixture.native(kBob)));  // the home crew is no help
    fixture.turn_until([&] { return !runs(pids[0]) && !runs(pids[1]); });
}

void a_domain_that_a_late_read_keeps_serves_its_users_next_crew_and_costs_no_second_arena(void**) {
    Fixture fixture;
    std::shared_ptr<Domain> late = fixture.native(kAlice).domain;
    assert_true(fixture.crews().end_resting(nullptr));
    assert_true(fixture.budget().reserved() == 2 * kMiB && fixture.crews().input().capacity == 2 * kMiB);
    assert_true(fixture.native(kBob).domain != late);
    assert_true(fixture.native(kAlice).domain == late);
    assert_true(fixture.budget().reserved() == 3 * kMiB);
    assert_true(fixture.crews().end_resting(nullptr));
    late.reset();
    assert_true(fixture.budget().reserved() == kMiB && fixture.crews().input().capacity == kMiB);
}

void a_new_domain_has_no_byte_of_one_that_has_ended(void**) {
    Fixture fixture(2 * kMiB);
    for (uid_t uid = kAlice; uid < kAlice + 8; ++uid) {
        const InputArena& input = fixture.native(uid).domain->input;
        const std::byte* bytes = input.at(0);
        for (std::uint64_t i = 0; i < input.capacity(); ++i)
            assert_true(bytes[i] == std::byte{0});
        std::memset(input.at(0), 0xA5, input.capacity());
    }
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_user_has_a_crew_a_domain_and_workers_of_its_own),
        cmocka_unit_test(a_user_with_the_number_of_a_guest_crew_is_not_taken_for_it),
        cmocka_unit_test(a_crew_that_rests_leaves_with_its_workers_and_memory_and_the_home_crew_stays),
        cmocka_unit_test(a_domain_beyond_the_budget_is_refused_and_one_that_rests_makes_room),
        cmocka_unit_test(
            a_domain_that_a_late_read_keeps_serves_its_users_next_crew_and_costs_no_second_arena),
        cmocka_unit_test(a_new_domain_has_no_byte_of_one_that_has_ended),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
