// What every back end promises, written once and run for each: io_uring, io_uring with a ring of two entries
// (URG-04), and threads. Tests that need a fault point are skipped in a build without SL_TEST_HOOKS.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>

#include "io/test_hooks.h"
#include "tests/reader/fixture.h"

namespace sl::testing {
namespace {

constexpr std::array<std::uint64_t, 9> kSizes = {0, 1, 511, 512, 513, 4095, 4096, 4097, 1'000'003};

const ReaderOptions& options_of(void** state) {
    return *static_cast<const ReaderOptions*>(*state);
}

std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        ++count;
    return count;
}

// Reads all of kSizes' files at once, each under its own tag, and compares every byte.
void read_all_sizes(Session& session, const TempFolder& folder) {
    std::vector<std::vector<std::byte>> content(kSizes.size());
    std::vector<int> fds(kSizes.size());
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
        auto path = folder.file("size_" + std::to_string(kSizes[i]), coded_bytes(0, kSizes[i]));
        ReadCompletion opened = session.open(path);
        assert_int_equal(opened.error, 0);
        assert_int_equal(opened.size, kSizes[i]);
        fds[i] = opened.fd;
        content[i].resize(kSizes[i] + 1, std::byte{0xEE});
    }
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
        session.reader().read({1000 + i, fds[i], 0, kSizes[i], content[i].data()});
    }
    std::set<std::uint64_t> answered;
    for (const auto& completion : session.wait_for(kSizes.size())) {
        std::size_t i = completion.tag - 1000;
        assert_in_range(i, 0, kSizes.size() - 1);
        assert_int_equal(completion.error, 0);
        assert_int_equal(completion.bytes, kSizes[i]);
        assert_true(answered.insert(completion.tag).second);
    }
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
        ::close(fds[i]);
        auto expected = coded_bytes(0, kSizes[i]);
        expected.push_back(std::byte{0xEE});  // and not a byte beyond
        assert_true(content[i] == expected);
    }
    assert_int_equal(session.reader().in_flight(), 0);
}

void files_of_border_sizes_read_back_right(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    read_all_sizes(session, folder);
}

void an_open_tells_size_and_time_of_the_file(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    auto path = folder.file("a", coded_bytes(0, 1234));
    struct stat status = {};
    assert_int_equal(::stat(path.c_str(), &status), 0);
    ReadCompletion opened = session.open(path);
    assert_int_equal(opened.error, 0);
    assert_int_equal(opened.size, 1234);
    assert_int_equal(opened.mtime_ns, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
    assert_int_equal(::fcntl(opened.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(::fcntl(opened.fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDONLY);
    ::close(opened.fd);
}

void what_is_no_regular_file_is_refused_without_blocking(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    std::size_t before = open_descriptors();
    assert_int_equal(session.open(folder.path("missing")).error, ENOENT);
    assert_int_equal(session.open(folder.root()).error, EISDIR);
    assert_int_equal(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
    assert_int_equal(session.open(folder.path("fifo")).error, EINVAL);
    assert_int_equal(session.open("/dev/null").error, EINVAL);

    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    folder.path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    assert_int_equal(session.open(folder.path("socket")).error, EINVAL);
    ::close(listener);
    assert_int_equal(open_descriptors(), before);
}

void a_read_of_a_bad_descriptor_or_range_is_an_error(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    std::byte byte{};
    assert_int_equal(session.read(-1, 0, 1, &byte).error, EBADF);
    ReadCompletion opened = session.open(folder.file("a", coded_bytes(0, 10)));
    constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
    assert_int_equal(session.read(opened.fd, kMost, 1, &byte).error, EINVAL);
    assert_int_equal(session.read(opened.fd, kMost / 2, 1, &byte).error, EINVAL);
    ::close(opened.fd);
}

void a_file_cut_after_open_gives_fewer_bytes_and_no_error(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    auto path = folder.file("a", coded_bytes(0, 10'000));
    ReadCompletion opened = session.open(path);
    assert_int_equal(opened.size, 10'000);
    assert_int_equal(::truncate(path.c_str(), 4321), 0);
    std::vector<std::byte> content(10'000, std::byte{0xEE});
    ReadCompletion got = session.read(opened.fd, 0, opened.size, content.data());
    ::close(opened.fd);
    assert_int_equal(got.error, 0);
    assert_int_equal(got.bytes, 4321);
    content.resize(4321);
    assert_true(content == coded_bytes(0, 4321));
}

void ten_thousand_reads_each_complete_once(void** state) {
    constexpr std::uint64_t kReads = 10'000;
    constexpr std::uint64_t kLength = 137;
    TempFolder folder;
    Session session(options_of(state));
    ReadCompletion opened = session.open(folder.file("a", coded_bytes(0, kReads * 50 + kLength)));
    std::vector<std::byte> content(kReads * kLength);
    for (std::uint64_t i = 0; i < kReads; ++i) {
        session.reader().read({i, opened.fd, i * 50, kLength, content.data() + i * kLength});
    }
    assert_int_equal(session.reader().in_flight(), kReads);
    std::vector<bool> answered(kReads);
    for (const auto& completion : session.wait_for(kReads)) {
        assert_in_range(completion.tag, 0, kReads - 1);
        assert_false(answered[completion.tag]);
        answered[completion.tag] = true;
        assert_int_equal(completion.error, 0);
        assert_int_equal(completion.bytes, kLength);
    }
    ::close(opened.fd);
    assert_int_equal(session.reader().in_flight(), 0);
    for (std::uint64_t i = 0; i < kReads; ++i) {
        auto first = content.begin() + static_cast<std::ptrdiff_t>(i * kLength);
        assert_true(std::equal(first, first + kLength, coded_bytes(i * 50, kLength).begin()));
    }
}

void opens_and_reads_beyond_the_capacity_all_complete(void** state) {
    constexpr std::uint64_t kFiles = 300;
    TempFolder folder;
    Session session(options_of(state));
    std::deque<std::string> paths;
    for (std::uint64_t i = 0; i < kFiles; ++i) {
        paths.push_back(folder.file(std::to_string(i), coded_bytes(i, i)));
        session.reader().open({i, paths.back().c_str()});
    }
    for (const auto& completion : session.wait_for(kFiles)) {
        assert_true(completion.is_open);
        assert_int_equal(completion.error, 0);
        assert_int_equal(completion.size, completion.tag);  // each descriptor went to its own tag
        ::close(completion.fd);
    }
}

void the_end_with_work_in_flight_closes_what_nobody_took(void** state) {
    TempFolder folder;
    auto path = folder.file("a", coded_bytes(0, 100'000));
    std::size_t before = open_descriptors();
    std::vector<std::byte> content(100'000 * 50);
    {
        Session session(options_of(state));
        ReadCompletion opened = session.open(path);
        for (std::uint64_t i = 0; i < 50; ++i) {
            session.reader().open({i, path.c_str()});
            session.reader().read({i, opened.fd, 0, 100'000, content.data() + i * 100'000});
        }
        session.reader().flush();
        session.end();
        ::close(opened.fd);
    }
    // A thread that has said that it is done may be the last to let go of the reader's own descriptor.
    for (int tries = 0; tries < 1000 && open_descriptors() != before; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    assert_int_equal(open_descriptors(), before);
}

#ifdef SL_TEST_HOOKS

void a_short_read_is_asked_for_again(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    auto path = folder.file("a", coded_bytes(0, 10'000));
    test_hooks::max_bytes_per_read = 7;
    assert_true(session.read_file(path) == coded_bytes(0, 10'000));
    assert_int_equal(test_hooks::read_calls, (10'000 + 6) / 7);
}

void completions_in_reverse_order_change_nothing(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    test_hooks::reverse_completions = true;
    test_hooks::max_bytes_per_read = 1000;
    read_all_sizes(session, folder);
}

void eagain_in_every_third_read_changes_nothing(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    test_hooks::eagain_every_third_read = true;
    test_hooks::max_bytes_per_read = 100'000;
    read_all_sizes(session, folder);
    assert_true(test_hooks::read_calls > kSizes.size());
}

void eagain_without_end_is_an_error_at_the_deadline(void** state) {
    TempFolder folder;
    ReaderOptions options = options_of(state);
    options.retry_for = std::chrono::milliseconds(200);
    Session session(options);
    auto before = std::chrono::steady_clock::now();
    ReadCompletion opened = session.open(folder.file("a", coded_bytes(0, 10)));
    test_hooks::always_eagain = true;
    std::array<std::byte, 10> content{};
    ReadCompletion got = session.read(opened.fd, 0, 10, content.data());
    ::close(opened.fd);
    assert_int_equal(got.error, EAGAIN);
    assert_int_equal(got.bytes, 0);
    assert_true(std::chrono::steady_clock::now() - before >= options.retry_for);
    assert_in_range(test_hooks::read_calls, 3, 14);  // 0.25 ms, doubling to 50 ms
}

int reset_hooks(void**) {
    test_hooks::reset();
    return 0;
}

#else

int reset_hooks(void**) {
    return 0;
}

#endif

struct Promise {
    const char* name;
    CMUnitTestFunction run;
};

#define SL_PROMISE(function) \
    Promise {                \
#function, function  \
    }

const Promise kPromises[] = {
    SL_PROMISE(files_of_border_sizes_read_back_right),
    SL_PROMISE(an_open_tells_size_and_time_of_the_file),
    SL_PROMISE(what_is_no_regular_file_is_refused_without_blocking),
    SL_PROMISE(a_read_of_a_bad_descriptor_or_range_is_an_error),
    SL_PROMISE(a_file_cut_after_open_gives_fewer_bytes_and_no_error),
    SL_PROMISE(ten_thousand_reads_each_complete_once),
    SL_PROMISE(opens_and_reads_beyond_the_capacity_all_complete),
    SL_PROMISE(the_end_with_work_in_flight_closes_what_nobody_took),
#ifdef SL_TEST_HOOKS
    SL_PROMISE(a_short_read_is_asked_for_again),
    SL_PROMISE(completions_in_reverse_order_change_nothing),
    SL_PROMISE(eagain_in_every_third_read_changes_nothing),
    SL_PROMISE(eagain_without_end_is_an_error_at_the_deadline),
#endif
};

int run_for(const char* backend, ReaderOptions options) {
    auto made = make_reader(options, nullptr);
    if (!made) {
        print_message("%s is not to be had here: %s\n", backend, made.error().message.c_str());
        return 0;
    }
    made->reset();
    std::deque<std::string> names;
    std::vector<CMUnitTest> tests;
    for (const Promise& promise : kPromises) {
        names.push_back(std::string(promise.name) + "/" + backend);
        tests.push_back({names.back().c_str(), promise.run, nullptr, reset_hooks, &options});
    }
    return ::_cmocka_run_group_tests(backend, tests.data(), tests.size(), nullptr, nullptr);
}

}  // namespace
}  // namespace sl::testing

int main() {
    using sl::ReaderBackend;
    int failed = sl::testing::run_for("threads", {.backend = ReaderBackend::kThreads});
    failed += sl::testing::run_for("uring", {.backend = ReaderBackend::kUring});
    failed += sl::testing::run_for("uring_of_two_entries", {.backend = ReaderBackend::kUring, .entries = 2});
    return failed;
}
