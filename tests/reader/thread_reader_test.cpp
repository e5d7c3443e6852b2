// Who waits for whom among the threads: requests of different users and mounts, and those tried again.
#include "io/thread_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <thread>

#include "io/hung_mounts.h"
#include "tests/reader/fixture.h"

namespace sl::testing {
namespace {

constexpr uid_t kAlice = 61'001;
constexpr uid_t kBob = 61'002;

std::ptrdiff_t count_threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// A file that cannot be opened without waiting, as long as this lives: somebody writes to it, who is asked to
// let go of it and does not hear.
class Leased {
  public:
    explicit Leased(const std::string& path) : fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)) {
        ::signal(SIGIO, SIG_IGN);
        assert_int_equal(::fcntl(fd_.get(), F_SETLEASE, F_WRLCK), 0);
    }

  private:
    UniqueFd fd_;
};

ReaderOptions with_one_thread(std::chrono::milliseconds retry_for) {
    return {.backend = ReaderBackend::kThreads, .threads = 1, .retry_for = retry_for};
}

void close_all(const std::vector<ReadCompletion>& opened) {
    for (const ReadCompletion& completion : opened)
        ::close(completion.fd);
}

void what_is_tried_again_holds_no_thread(void**) {
    const TempFolder folder;
    const std::string held = folder.file("held");
    const std::string free = folder.file("free");
    Session session(with_one_thread(std::chrono::hours(1)));
    {
        const Leased lease(held);
        session.reader().open({.tag = 1, .path = held.c_str()});
        session.reader().open({.tag = 2, .path = free.c_str()});
        const auto first = session.wait_for(1);
        assert_int_equal(first[0].tag, 2);
        assert_int_equal(first[0].error, 0);
        close_all(first);
    }
    const auto second = session.wait_for(1);
    assert_int_equal(second[0].tag, 1);
    assert_int_equal(second[0].error, 0);
    close_all(second);
}

void what_waits_to_be_tried_again_is_given_up_at_once(void**) {
    const TempFolder folder;
    const std::string held = folder.file("held");
    const Leased lease(held);
    Session session(with_one_thread(std::chrono::hours(1)));
    session.reader().open({.tag = 7, .path = held.c_str(), .mount = {.device = 3}});
    session.reader().flush();
    std::vector<std::uint64_t> tags;
    while (tags.empty())
        session.reader().give_up(Reader::Clock::now(), tags);
    assert_int_equal(tags.size(), 1);
    assert_int_equal(tags[0], 7);
    const auto late = session.wait_for(1);
    assert_int_equal(late[0].tag, 7);
    assert_true(late[0].error == ETIMEDOUT || late[0].error == EAGAIN);
    assert_int_equal(late[0].mount.device, 3);
    assert_int_equal(session.reader().hung(), 0);
}

void the_end_does_not_wait_for_what_is_to_be_tried_again(void**) {
    const TempFolder folder;
    const std::string held = folder.file("held");
    const Leased lease(held);
    Session session(with_one_thread(std::chrono::hours(1)));
    session.reader().open({.tag = 1, .path = held.c_str()});
    session.reader().flush();
    session.end();
}

void a_user_with_many_mounts_has_so_many_threads_and_all_its_requests_are_answered(void**) {
    constexpr std::size_t kMounts = 200;
    const TempFolder folder;
    const std::string path = folder.file("a", coded_bytes(0, 10));
    const std::ptrdiff_t before = count_threads();
    Session session({.backend = ReaderBackend::kThreads});
    for (std::uint64_t device = 0; device < kMounts; ++device) {
        for (std::uint64_t i = 0; i < 4; ++i)
            session.reader().open({device * 4 + i, path.c_str(), {device, true, kAlice}, {}});
    }
    session.reader().flush();
    assert_in_range(count_threads() - before, 0, 100);  // 32, and some that are about to be gone
    auto done = session.wait_for(kMounts * 4);
    assert_true(std::ranges::all_of(done, [](const ReadCompletion& it) { return it.error == 0; }));
    std::ranges::sort(done, {}, &ReadCompletion::tag);
    for (std::uint64_t tag = 0; tag < done.size(); ++tag) {
        assert_int_equal(done[tag].tag, tag);
        assert_int_equal(done[tag].mount.device, tag / 4);
        assert_true(done[tag].mount.user == kAlice);
    }
    close_all(done);
    while (count_threads() > before)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // they end when they are idle
}

void hung_calls_of_one_user_put_no_other_user_out_of_service(void**) {
    HungMounts hung;
    const Mount::Key alices{kAlice, 1};
    const Mount::Key bobs{kBob, 1};
    for (std::size_t i = 0; i < HungMounts::kMostOfOne; ++i) {
        assert_false(hung.out_of_service(alices));
        hung.add(alices);
    }
    assert_true(hung.out_of_service(alices));
    assert_false(hung.out_of_service({kAlice, 2}));
    for (std::uint64_t device = 100; hung.total() < HungMounts::kMany; ++device) {
        assert_false(hung.out_of_service({kAlice, device}));
        hung.add({kAlice, device});
    }
    assert_true(hung.out_of_service({kAlice, 100}));  // has one
    assert_false(hung.out_of_service({kAlice, 2}));   // has none
    for (std::uint64_t device = 200; hung.total() < HungMounts::kMost; ++device)
        hung.add({kAlice, device});
    assert_true(hung.out_of_service({kAlice, 2}));
    assert_false(hung.out_of_service(bobs));
    assert_false(hung.out_of_service({{}, 1}));
    hung.remove({kAlice, 200});
    assert_false(hung.out_of_service({kAlice, 2}));
}

}  // namespace
}  // namespace sl::testing

int main() {
    using namespace sl::testing;
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_is_tried_again_holds_no_thread),
        cmocka_unit_test(what_waits_to_be_tried_again_is_given_up_at_once),
        cmocka_unit_test(the_end_does_not_wait_for_what_is_to_be_tried_again),
        cmocka_unit_test(a_user_with_many_mounts_has_so_many_threads_and_all_its_requests_are_answered),
        cmocka_unit_test(hung_calls_of_one_user_put_no_other_user_out_of_service),
    };
    return cmocka_run_group_tests_name("threads", tests, nullptr, nullptr);
}
