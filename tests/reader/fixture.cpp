// See fixture.h.
#include "tests/reader/fixture.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sl::testing {

TempFolder::TempFolder() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/sl_reader_XXXXXX";
    assert_non_null(::mkdtemp(pattern.data()));
    root_ = pattern;
    ::chmod(root_.c_str(), 0755);  // some tests read it as another user
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
}

std::string TempFolder::file(const std::string& name, const std::vector<std::byte>& content) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream stream(path(name), std::ios::binary);
    stream.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    stream.close();
    assert_true(stream.good());
    return path(name);
}

std::string TempFolder::folder(const std::string& name) const {
    std::filesystem::create_directories(path(name));
    return path(name);
}

std::byte coded(std::uint64_t position) {
    return std::byte((position + 1) * 0x9E3779B97F4A7C15U >> 56);
}

std::vector<std::byte> coded_bytes(std::uint64_t first, std::uint64_t count) {
    std::vector<std::byte> bytes(count);
    for (std::uint64_t i = 0; i < count; ++i)
        bytes[i] = coded(first + i);
    return bytes;
}

Session::Session(const ReaderOptions& options) {
    auto made = make_reader(options, nullptr);
    if (!made) print_error("%s\n", made.error().message.c_str());
    assert_true(made.has_value());
    reader_ = std::move(*made);
}

std::vector<ReadCompletion> Session::wait_for(std::size_t count) {
    constexpr int kPatienceMs = 60'000;
    std::vector<ReadCompletion> completions;
    reader_->flush();
    while (completions.size() < count) {
        pollfd waiting = {reader_->event_fd(), POLLIN, 0};
        int ready = ::poll(&waiting, 1, kPatienceMs);
        if (ready < 0 && errno == EINTR) continue;
        assert_int_equal(ready, 1);
        reader_->reap(completions);
    }
    assert_int_equal(completions.size(), count);
    return completions;
}

ReadCompletion Session::open(const std::string& path) {
    reader_->open({.tag = 71, .path = path.c_str()});
    ReadCompletion completion = wait_for(1)[0];
    assert_int_equal(completion.tag, 71);
    assert_true(completion.is_open);
    return completion;
}

ReadCompletion Session::read(int fd, std::uint64_t offset, std::uint64_t length, std::byte* destination) {
    reader_->read({.tag = 72, .fd = fd, .offset = offset, .length = length, .destination = destination});
    ReadCompletion completion = wait_for(1)[0];
    assert_int_equal(completion.tag, 72);
    assert_false(completion.is_open);
    return completion;
}

std::vector<std::byte> Session::read_file(const std::string& path) {
    ReadCompletion opened = open(path);
    assert_int_equal(opened.error, 0);
    std::vector<std::byte> content(opened.size);
    ReadCompletion got = read(opened.fd, 0, opened.size, content.data());
    ::close(opened.fd);
    assert_int_equal(got.error, 0);
    assert_int_equal(got.bytes, opened.size);
    return content;
}

}  // namespace sl::testing
