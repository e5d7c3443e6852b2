// read_tool uring|threads FILE: reads FILE through a back end, for tests that need a file system of their
// own.
//
// The bytes go to standard output, one line "size=N bytes=N error=NAME" to standard error (NAME is the
// errno's, or "none"). Exit status: 0 when the reader answered, with whatever result; 2 for a wrong call; 3
// when the back end is not to be had.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "io/reader.h"

namespace {

sl::ReadCompletion wait_for_one(sl::Reader& reader) {
    std::vector<sl::ReadCompletion> completions;
    reader.flush();
    while (completions.empty()) {
        pollfd waiting = {reader.event_fd(), POLLIN, 0};
        ::poll(&waiting, 1, -1);
        reader.reap(completions);
    }
    return completions.front();
}

const char* name_of(int error) {
    return error == 0 ? "none" : ::strerrorname_np(error);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: read_tool uring|threads FILE\n");
        return 2;
    }
    bool uring = std::string_view(arguments[1]) == "uring";
    sl::ReaderOptions options;
    options.backend = uring ? sl::ReaderBackend::kUring : sl::ReaderBackend::kThreads;
    auto reader = sl::make_reader(options, nullptr);
    if (!reader) {
        std::fprintf(stderr, "%s\n", reader.error().message.c_str());
        return 3;
    }
    (*reader)->open({.tag = 1, .path = arguments[2]});
    sl::ReadCompletion opened = wait_for_one(**reader);
    std::vector<std::byte> content(opened.size);
    sl::ReadCompletion got = opened;
    if (opened.error == 0) {
        (*reader)->read({2, opened.fd, 0, opened.size, content.data()});
        got = wait_for_one(**reader);
        ::close(opened.fd);
    }
    if (got.bytes > 0) std::fwrite(content.data(), 1, got.bytes, stdout);
    std::fprintf(stderr, "size=%llu bytes=%llu error=%s\n", static_cast<unsigned long long>(opened.size),
                 static_cast<unsigned long long>(got.bytes), name_of(got.error));
    return 0;
}
