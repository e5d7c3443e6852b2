// LDR-14: files and reads beyond 2 GiB and 4 GiB, for each back end. The file is sparse, with position-coded
// bytes around the borders; the one large read needs 2 GiB of memory for a moment.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "tests/reader/fixture.h"

namespace sl::testing {
namespace {

constexpr std::uint64_t kSize = (std::uint64_t{1} << 32) + 1;
constexpr std::uint64_t kMark = 64;  // bytes of a marker, around each border
constexpr std::array<std::uint64_t, 5> kBorders = {std::uint64_t{1} << 30, (std::uint64_t{1} << 31) - 4096,
                                                   std::uint64_t{1} << 31, 3 * (std::uint64_t{1} << 30),
                                                   (std::uint64_t{1} << 32) - kMark / 2 + 1};

const ReaderOptions& options_of(void** state) {
    return *static_cast<const ReaderOptions*>(*state);
}

std::string make_sparse_file(const TempFolder& folder) {
    auto path = folder.path("large");
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(::ftruncate(fd, static_cast<off_t>(kSize)), 0);
    for (std::uint64_t border : kBorders) {
        auto mark = coded_bytes(border - kMark / 2, kMark);
        assert_int_equal(::pwrite(fd, mark.data(), kMark, static_cast<off_t>(border - kMark / 2)), kMark);
    }
    ::close(fd);
    return path;
}

void bytes_around_two_and_four_gibibytes_are_right(void** state) {
    TempFolder folder;
    Session session(options_of(state));
    ReadCompletion opened = session.open(make_sparse_file(folder));
    assert_int_equal(opened.size, kSize);
    for (std::uint64_t border : kBorders) {
        std::vector<std::byte> content(kMark);
        ReadCompletion got = session.read(opened.fd, border - kMark / 2, kMark, content.data());
        assert_int_equal(got.error, 0);
        assert_int_equal(got.bytes, kMark);
        assert_true(content == coded_bytes(border - kMark / 2, kMark));
    }
    std::byte last{};
    assert_int_equal(session.read(opened.fd, kSize - 1, 1, &last).bytes, 1);
    assert_true(last == coded(kSize - 1));
    assert_int_equal(session.read(opened.fd, kSize, 1, &last).bytes, 0);
    ::close(opened.fd);
}

void one_read_longer_than_two_gibibytes_is_whole(void** state) {
    constexpr std::uint64_t kFirst = 4095;
    constexpr std::uint64_t kLength = (std::uint64_t{1} << 31) + 8192;
    void* memory = ::mmap(nullptr, kLength + 1, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) skip();
    TempFolder folder;
    Session session(options_of(state));
    ReadCompletion opened = session.open(make_sparse_file(folder));
    auto* content = static_cast<std::byte*>(memory);
    content[kLength] = std::byte{0xEE};
    ReadCompletion got = session.read(opened.fd, kFirst, kLength, content);
    ::close(opened.fd);
    assert_int_equal(got.error, 0);
    assert_int_equal(got.bytes, kLength);
    for (std::uint64_t border : kBorders) {
        if (border + kMark > kFirst + kLength) continue;
        auto expected = coded_bytes(border - kMark / 2, kMark);
        const std::byte* mark = content + (border - kMark / 2 - kFirst);
        assert_memory_equal(mark, expected.data(), kMark);
        assert_true(mark[-1] == std::byte{0} && mark[kMark] == std::byte{0});
    }
    assert_true(content[kLength] == std::byte{0xEE});
    ::munmap(memory, kLength + 1);
}

// The kernel takes 1 GiB in one registered buffer: a read across the border between two is two reads.
void a_read_across_two_registered_buffers_is_whole(void**) {
    constexpr std::uint64_t kBorder = std::uint64_t{1} << 30;
    constexpr std::uint64_t kBytes = kBorder + (1U << 20);
    void* memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) skip();
    auto* content = static_cast<std::byte*>(memory);
    TempFolder folder;
    Session session({.backend = ReaderBackend::kUring, .registered = std::span(content, kBytes)});
    auto path = folder.file("a", coded_bytes(0, 300'000));
    ReadCompletion opened = session.open(path);
    std::byte* destination = content + kBorder - 100'000;
    ReadCompletion got = session.read(opened.fd, 0, 300'000, destination);
    ::close(opened.fd);
    assert_int_equal(got.error, 0);
    assert_int_equal(got.bytes, 300'000);
    auto expected = coded_bytes(0, 300'000);
    assert_true(std::equal(expected.begin(), expected.end(), destination));
    session.end();
    ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace sl::testing

int main() {
    using namespace sl::testing;
    sl::ReaderOptions threads{.backend = sl::ReaderBackend::kThreads};
    sl::ReaderOptions uring{.backend = sl::ReaderBackend::kUring};
    auto with = [](const char* name, CMUnitTestFunction run, sl::ReaderOptions* options) {
        return CMUnitTest{name, run, nullptr, nullptr, options};
    };
    std::vector<CMUnitTest> tests = {with("bytes_around_two_and_four_gibibytes_are_right/threads",
                                          bytes_around_two_and_four_gibibytes_are_right, &threads),
                                     with("one_read_longer_than_two_gibibytes_is_whole/threads",
                                          one_read_longer_than_two_gibibytes_is_whole, &threads)};
    if (sl::make_reader(uring, nullptr)) {
        tests.push_back(with("bytes_around_two_and_four_gibibytes_are_right/uring",
                             bytes_around_two_and_four_gibibytes_are_right, &uring));
        tests.push_back(with("one_read_longer_than_two_gibibytes_is_whole/uring",
                             one_read_longer_than_two_gibibytes_is_whole, &uring));
        tests.push_back(with("a_read_across_two_registered_buffers_is_whole",
                             a_read_across_two_registered_buffers_is_whole, &uring));
    }
    return ::_cmocka_run_group_tests("large reads", tests.data(), tests.size(), nullptr, nullptr);
}
