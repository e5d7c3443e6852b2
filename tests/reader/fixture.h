// What the reader's tests share: a folder of their own, files whose bytes tell their position, and a session
// that submits requests and waits for completions the way the conductor does, by polling the event
// descriptor.
//
// Failures are cmocka assertions; they end the test. Not thread safe.
#pragma once

#include <setjmp.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// After the project's headers: cmocka defines a macro `fail`, which would break sl::fail in them.
#include "io/reader.h"
extern "C" {
#include <cmocka.h>
}

namespace sl::testing {

// A new folder, removed with all it holds at the end.
class TempFolder {
  public:
    TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder();

    [[nodiscard]] const std::string& root() const { return root_; }
    [[nodiscard]] std::string path(const std::string& name) const { return root_ + "/" + name; }
    // Makes the folders above it too.
    std::string file(const std::string& name, const std::vector<std::byte>& content) const;
    std::string file(const std::string& name) const { return file(name, {}); }
    std::string folder(const std::string& name) const;

  private:
    std::string root_;
};

// The byte at `position` of a position-coded file: neighbours and blocks all differ.
std::byte coded(std::uint64_t position);
std::vector<std::byte> coded_bytes(std::uint64_t first, std::uint64_t count);

class Session {
  public:
    explicit Session(const ReaderOptions& options);

    Reader& reader() { return *reader_; }
    // Destroys the reader, whatever is in flight.
    void end() { reader_.reset(); }

    // Flushes and reaps until `count` completions came, only ever after the event descriptor was readable.
    std::vector<ReadCompletion> wait_for(std::size_t count);

    ReadCompletion open(const std::string& path);
    ReadCompletion read(int fd, std::uint64_t offset, std::uint64_t length, std::byte* destination);
    // Opens, reads size bytes, closes.
    std::vector<std::byte> read_file(const std::string& path);

  private:
    std::unique_ptr<Reader> reader_;
};

}  // namespace sl::testing
