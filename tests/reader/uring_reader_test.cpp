// What only the io_uring back end, or its absence, can show: refusals and the way round them (URG-01,
// URG-02), registered memory, refused submissions (URG-04), and the end with a read that cannot finish.
//
// Limits and filters are set in a forked child, since neither can be taken back.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <span>
#include <string_view>

#include "io/test_hooks.h"
#include "tests/reader/fixture.h"

namespace sl::testing {
namespace {

constexpr ReaderOptions kUring = {.backend = ReaderBackend::kUring};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

// Runs `body` in a child; its result is the number of the first check that failed, 0 when all held.
int in_child(const std::function<int()>& body) {
    pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    assert_int_equal(::waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Answers `error` to io_uring_setup, _enter and _register (425 to 427), as container filters do.
bool forbid_io_uring(unsigned error) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 425, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 427, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter = {std::size(program), program};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

// Answers ENOMEM to io_uring_setup (425) for rings of more than `most` entries: no contiguous memory for
// them.
bool forbid_rings_above(unsigned most) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 425, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, most, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter = {std::size(program), program};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

int check_largest_ring(const std::string& path, unsigned most, std::string_view said) {
    if (!forbid_rings_above(most)) return 1;
    std::string note;
    auto reader = make_reader({.entries = 256}, &note);
    if (!reader) return 2;
    if (!contains((*reader)->description(), said)) return 3;
    reader->reset();
    Session session({.entries = 256});
    return session.read_file(path) == coded_bytes(0, 5000) ? 0 : 4;
}

void URG_02_a_ring_is_tried_at_half_the_entries_down_to_32_and_then_threads_read(void**) {
    TempFolder folder;
    auto path = folder.file("a", coded_bytes(0, 5000));
    auto check = [&](unsigned most, std::string_view said) {
        return in_child([&] { return check_largest_ring(path, most, said); });
    };
    assert_int_equal(check(255, "uring: 128 entries (256 asked for)"), 0);
    assert_int_equal(check(100, "uring: 64 entries (256 asked for)"), 0);
    assert_int_equal(check(32, "uring: 32 entries (256 asked for)"), 0);
    assert_int_equal(check(31, "threads: 4 threads"), 0);
}

int check_fallback(const std::string& path, unsigned error, std::string_view name) {
    if (!forbid_io_uring(error)) return 1;
    std::string note;
    auto reader = make_reader({}, &note);
    if (!reader || (*reader)->backend() != "threads") return 2;
    if (!contains(note, name) || !contains(note, "reading with 4 threads; ")) return 3;
    reader->reset();
    Session session({});
    if (session.read_file(path) != coded_bytes(0, 5000)) return 4;
    auto forced = make_reader(kUring, &note);
    if (forced || forced.error().status != Status::kUnsupported) return 5;
    if (!contains(forced.error().message, name) || !note.empty()) return 6;
    return 0;
}

void where_io_uring_is_forbidden_threads_take_over_and_say_so(void**) {
    TempFolder folder;
    auto path = folder.file("a", coded_bytes(0, 5000));
    assert_int_equal(in_child([&] { return check_fallback(path, EPERM, "EPERM"); }), 0);
    assert_int_equal(in_child([&] { return check_fallback(path, ENOSYS, "ENOSYS"); }), 0);
    assert_int_equal(in_child([&] { return check_fallback(path, ENOMEM, "ENOMEM"); }), 0);
}

void where_io_uring_works_it_is_chosen_without_a_note(void**) {
    std::string note = "old";
    auto reader = make_reader({}, &note);
    assert_true(reader.has_value());
    assert_string_equal(std::string((*reader)->backend()).c_str(), "uring");
    assert_true(note.empty());
}

void a_ring_too_large_for_the_kernel_is_halved(void**) {
    Session session({.backend = ReaderBackend::kUring, .entries = 65'536});
    assert_true(contains(session.reader().description(), "uring: 32768 entries (65536 asked for)"));
}

// Behind the registered pages' addresses lie other pages after a new mmap. Only a fixed read still writes to
// the registered ones, which the memfd shows.
void a_destination_in_registered_memory_takes_a_fixed_read(void**) {
    constexpr std::size_t kBytes = 1 << 16;
    TempFolder folder;
    auto path = folder.file("a", coded_bytes(0, 5000));
    int memfd = ::memfd_create("registered", MFD_CLOEXEC);
    assert_int_equal(::ftruncate(memfd, kBytes), 0);
    void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    assert_true(memory != MAP_FAILED);
    auto* bytes = static_cast<std::byte*>(memory);
    Session session({.backend = ReaderBackend::kUring, .registered = std::span(bytes, kBytes)});
    assert_true(contains(session.reader().description(), "65536 bytes of registered memory"));
    assert_true(::mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0) == memory);

    ReadCompletion opened = session.open(path);
    assert_int_equal(session.read(opened.fd, 0, 5000, bytes + 100).bytes, 5000);
    std::vector<std::byte> registered(5000);
    assert_int_equal(::pread(memfd, registered.data(), 5000, 100), 5000);
    assert_true(registered == coded_bytes(0, 5000));
    assert_true(bytes[100] == std::byte{0});

    // Memory that only begins in the registered range, or lies elsewhere, takes an ordinary read.
    std::vector<std::byte> elsewhere(5000);
    assert_int_equal(session.read(opened.fd, 0, 5000, elsewhere.data()).bytes, 5000);
    assert_true(elsewhere == coded_bytes(0, 5000));
    ::close(opened.fd);
    session.end();
    ::munmap(memory, kBytes);
    ::close(memfd);
}

int check_small_lock_limit(const std::string& path) {
    rlimit little = {64 << 10, 64 << 10};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) return 1;
    if (::geteuid() == 0 && ::setresuid(65'534, 65'534, 65'534) != 0) return 2;
    std::vector<std::byte> memory(4 << 20);
    std::string note;
    auto reader = make_reader({.backend = ReaderBackend::kUring, .registered = memory}, &note);
    if (!reader) return 3;
    if (!contains((*reader)->description(), "memory not registered (Cannot allocate memory")) return 4;
    reader->reset();
    Session session({.backend = ReaderBackend::kUring, .registered = memory});
    return session.read_file(path) == coded_bytes(0, 5000) ? 0 : 5;
}

void memory_that_may_not_be_locked_is_no_error(void**) {
    TempFolder folder;
    auto path = folder.file("a", coded_bytes(0, 5000));
    assert_int_equal(in_child([&] { return check_small_lock_limit(path); }), 0);
}

// A pipe stands for a disk that never answers: its read is in flight until bytes come. After the reader's end
// the bytes must still be in the pipe, and none in the buffer.
void after_the_end_the_kernel_writes_into_no_buffer(void**) {
    for (unsigned entries : {2U, 256U}) {
        std::array<int, 2> pipe{};
        assert_int_equal(::pipe2(pipe.data(), O_CLOEXEC), 0);
        std::vector<std::byte> buffer(64 * 10);
        Session session({.backend = ReaderBackend::kUring, .entries = entries});
        for (std::uint64_t i = 0; i < 10; ++i) {
            session.reader().read({i, pipe[0], 0, 64, buffer.data() + i * 64});
        }
        session.reader().flush();
        session.end();
        assert_int_equal(::write(pipe[1], "0123456789", 10), 10);
        std::array<char, 16> left{};
        assert_int_equal(::read(pipe[0], left.data(), left.size()), 10);
        assert_true(buffer == std::vector<std::byte>(64 * 10));
        ::close(pipe[0]);
        ::close(pipe[1]);
    }
}

#ifdef SL_TEST_HOOKS

void submissions_refused_with_none_in_flight_go_to_threads(void**) {
    constexpr std::uint64_t kReads = 20;
    for (unsigned entries : {2U, 256U}) {
        TempFolder folder;
        auto path = folder.file("a", coded_bytes(0, 5000));
        Session session({.backend = ReaderBackend::kUring, .entries = entries});
        test_hooks::refused_submissions = 1;
        ReadCompletion opened = session.open(path);
        assert_int_equal(opened.size, 5000);
        std::vector<std::byte> content(kReads * 250);
        for (std::uint64_t i = 0; i < kReads; ++i) {
            session.reader().read({i, opened.fd, i * 250, 250, content.data() + i * 250});
        }
        test_hooks::refused_submissions = 7;
        session.wait_for(kReads);
        assert_int_equal(test_hooks::refused_submissions, 0);
        assert_true(content == coded_bytes(0, 5000));
        // Refused for ever: everything still completes, with the descriptor readable.
        test_hooks::refused_submissions = 1000;
        for (int round = 0; round < 50; ++round) {
            std::byte byte{};
            assert_int_equal(session.read(opened.fd, 4321, 1, &byte).bytes, 1);
            assert_true(byte == coded(4321));
        }
        test_hooks::reset();
        ::close(opened.fd);
    }
}

#endif

}  // namespace
}  // namespace sl::testing

int main() {
    using namespace sl::testing;
    std::vector<CMUnitTest> tests = {
        cmocka_unit_test(where_io_uring_is_forbidden_threads_take_over_and_say_so),
    };
    if (sl::make_reader(kUring, nullptr)) {
        tests.insert(
            tests.end(),
            {
                cmocka_unit_test(where_io_uring_works_it_is_chosen_without_a_note),
                cmocka_unit_test(a_ring_too_large_for_the_kernel_is_halved),
                cmocka_unit_test(URG_02_a_ring_is_tried_at_half_the_entries_down_to_32_and_then_threads_read),
                cmocka_unit_test(a_destination_in_registered_memory_takes_a_fixed_read),
                cmocka_unit_test(memory_that_may_not_be_locked_is_no_error),
                cmocka_unit_test(after_the_end_the_kernel_writes_into_no_buffer),
#ifdef SL_TEST_HOOKS
                cmocka_unit_test(submissions_refused_with_none_in_flight_go_to_threads),
#endif
            });
    }
    return ::_cmocka_run_group_tests("io_uring", tests.data(), tests.size(), nullptr, nullptr);
}
