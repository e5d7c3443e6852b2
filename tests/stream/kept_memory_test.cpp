// Memory that clients keep counts until they let go of it, and nobody waits for another user's.
#include "daemon/stream/kept_memory.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kLarge = 4U << 20;  // given back in the background
constexpr std::uint64_t kSmall = 4096;
constexpr uid_t kAlice = 61'001;
constexpr uid_t kBob = 61'002;

class Fixture {
  public:
    Fixture()
        : budget_(64U << 20),
          loop_(*EventLoop::create()),
          background_(*Background::create(*loop_)),
          kept_(*loop_, *background_) {}

    Background& background() { return *background_; }
    MemoryBudget& budget() { return budget_; }
    KeptMemory& kept() { return kept_; }

    // Turns the loop until `done`, which may be called again; once.
    template <class Done>
    void turn_until(Done done) {
        loop_->on_idle(
            [&] {
                const bool over = done();
                if (over) loop_->stop();
                return over;
            },
            [] {});
        loop_->run();
    }

    // Gives up a segment of the user's that is on its account; the descriptor that was lent.
    UniqueFd give_up(uid_t uid, std::uint64_t bytes) {
        auto segment = Segment::create("test", bytes);
        assert_true(segment.has_value());
        UniqueFd lent = *segment->read_only_fd();
        KeptMemory::Memory memory;
        memory.lent.push_back(std::move(*segment));
        memory.reservation = *budget_.reserve(bytes, "a test", MemoryBudget::Account{uid, 0});
        kept_.give_up(uid, std::move(memory));
        return lent;
    }

  private:
    MemoryBudget budget_;
    std::unique_ptr<EventLoop> loop_;
    std::unique_ptr<Background> background_;
    KeptMemory kept_;
};

void what_is_kept_counts_until_it_is_let_go_of(void**) {
    for (const std::uint64_t bytes : {kSmall, kLarge}) {
        Fixture fixture;
        UniqueFd lent = fixture.give_up(kAlice, bytes);
        bool over = false;
        fixture.kept().settle([&] {
            assert_int_equal(fixture.kept().sum(kAlice).count, 1);
            assert_int_equal(fixture.kept().sum().bytes, bytes);
            assert_int_equal(fixture.kept().sum(kBob).count, 0);
            assert_int_equal(fixture.budget().reserved_by(kAlice), bytes);
            assert_int_equal(fixture.budget().reserved(), 0);
            lent.reset();
            fixture.kept().settle([&] { over = true; });
        });
        fixture.turn_until([&] { return over; });
        assert_int_equal(fixture.kept().sum().count, 0);
        assert_int_equal(fixture.budget().reserved_by(kAlice), 0);
        assert_int_equal(fixture.budget().reserved(), 0);
    }
}

void it_is_looked_at_without_being_asked(void**) {
    Fixture fixture;
    UniqueFd lent = fixture.give_up(kAlice, kLarge);
    fixture.kept().settle([&] { lent.reset(); });
    fixture.turn_until([&] { return !lent && fixture.budget().reserved_by(kAlice) == 0; });
    assert_int_equal(fixture.kept().sum().count, 0);
}

void who_settles_waits_for_what_came_before_only(void**) {
    Fixture fixture;
    fixture.give_up(kAlice, kLarge).reset();
    bool settled = false;
    bool first = false;
    fixture.kept().settle([&] {
        settled = true;
        first = fixture.budget().reserved_by(kAlice) == 0;
    });
    assert_false(settled);
    UniqueFd later = fixture.give_up(kBob, kLarge);
    fixture.turn_until([&] { return settled; });
    assert_true(first);
}

void who_settles_gets_what_was_let_go_of_since_it_was_looked_at(void**) {
    Fixture fixture;
    UniqueFd lent = fixture.give_up(kAlice, kLarge);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it looks, most likely, and finds it kept
    lent.reset();
    bool settled = false;
    fixture.kept().settle([&] {
        settled = true;
        assert_int_equal(fixture.budget().reserved_by(kAlice), 0);
    });
    fixture.turn_until([&] { return settled; });
}

void a_users_works_are_done_in_order_and_hold_up_nobody_else(void**) {
    Fixture fixture;
    std::latch bob_is_done(1);
    std::string order;
    std::thread::id alices;
    // Alice's first does not end before Bob's, which was asked for last.
    fixture.background().run(
        kAlice,
        [&] {
            bob_is_done.wait();
            alices = std::this_thread::get_id();
        },
        [&] { order += '1'; });
    fixture.background().run(
        kAlice, [&] { assert_true(bob_is_done.try_wait()); }, [&] { order += '2'; });
    fixture.background().run(
        kBob, [&] { bob_is_done.count_down(); }, [&] { order += 'b'; });
    fixture.turn_until([&] { return order.size() == 3; });
    assert_true(order.find('1') < order.find('2'));
    assert_true(alices != std::this_thread::get_id());
}

void the_end_waits_for_what_is_under_way_and_drops_the_rest(void**) {
    std::atomic<int> done = 0;
    std::latch begun(1);
    {
        Fixture fixture;
        const auto work = [&] {
            if (done == 0) begun.count_down();
            ++done;
        };
        for (int i = 0; i < 3; ++i)
            fixture.background().run(kAlice, work, [] { fail_msg("nobody turned the loop"); });
        begun.wait();
    }
    assert_int_equal(done.load(), 1);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_counts_until_it_is_let_go_of),
        cmocka_unit_test(it_is_looked_at_without_being_asked),
        cmocka_unit_test(who_settles_waits_for_what_came_before_only),
        cmocka_unit_test(who_settles_gets_what_was_let_go_of_since_it_was_looked_at),
        cmocka_unit_test(a_users_works_are_done_in_order_and_hold_up_nobody_else),
        cmocka_unit_test(the_end_waits_for_what_is_under_way_and_drops_the_rest),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
