// Which open files io_uring must not read: those on FUSE.
//
// Used by uring_reader, on the conductor's thread; is_on_fuse on any. Measured on a 6.18 kernel: where a FUSE
// server uses direct I/O and answers with fewer bytes than asked (a file cut short, an error further on, a
// server that sends pieces), the kernel's own retry inside an io_uring read starts again at the first offset
// and reports a full read of repeated bytes; IOSQE_ASYNC and fixed reads do the same. pread is right. A
// reader cannot see direct I/O from outside, so all of FUSE (virtiofs too) is read by pread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <vector>

namespace sl {

// Asks the file system. What cannot be told is read the way that is always right.
bool is_on_fuse(int fd);

class UnsafeFiles {
  public:
    // To be told of every descriptor opened, with the device its file is on: numbers are used again.
    void opened(int fd, dev_t device);
    // The same for one that somebody else has asked about.
    void opened_elsewhere(int fd, bool unsafe);
    [[nodiscard]] bool contains(int fd) const;

  private:
    struct Device {
        bool is_fuse = false;
        std::chrono::steady_clock::time_point asked;
    };
    bool is_fuse(int fd, dev_t device);

    std::vector<bool> unsafe_;         // by descriptor
    std::map<dev_t, Device> devices_;  // statfs may ask a server: once a second for each device, not per file
};

}  // namespace sl
