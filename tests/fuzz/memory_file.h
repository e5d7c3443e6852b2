// Bytes as an open file with a path, for what reads files. Aborts if the machine gives none.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <string>

#include "shm/fd.h"

namespace sl {

class MemoryFile {
  public:
    explicit MemoryFile(std::span<const std::byte> bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
        const bool written =
            ::write(fd_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
        if (!fd_ || !written || ::fchmod(fd_.get(), 0600) != 0) std::abort();
    }
    [[nodiscard]] int fd() const { return fd_.get(); }
    // Not to be opened with O_NOFOLLOW, which refuses it.
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

  private:
    UniqueFd fd_;
};

}  // namespace sl
