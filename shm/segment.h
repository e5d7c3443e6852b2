// Anonymous shared memory whose every byte is reserved before it is promised.
//
// A Segment is made by the daemon: memfd, fallocate (so nobody ever meets SIGBUS: lack of memory shows here
// and not at the first touch), owner-read mode, one writable map, seals. Others get a descriptor: read-only
// for clients, writable only for workers, before the segment is sealed against new writers. A Mapping is the
// receiver's side in daemon and workers. Nothing has a name in a file system, so nothing outlives its users.
// Not thread-safe to create or destroy; the memory itself follows shm/layout.h.
#pragma once

#include <boost/interprocess/mapped_region.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

enum class Access { kReadOnly, kReadWrite };

class Mapping {
  public:
    Mapping() = default;
    // Maps `bytes` of `fd` from its start. The descriptor may be closed afterwards.
    static Result<Mapping> map(int fd, std::uint64_t bytes, Access access);

    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(region_.get_address()); }
    [[nodiscard]] std::size_t size() const { return region_.get_size(); }
    [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size()}; }

  private:
    boost::interprocess::mapped_region region_;
};

class Segment {
  public:
    Segment() = default;
    // `name` shows in /proc/PID/maps only. Rounds up to whole pages. kNoMemory if there is not so much left.
    static Result<Segment> create(const char* name, std::uint64_t bytes);

    [[nodiscard]] std::byte* data() const { return mapping_.data(); }
    [[nodiscard]] std::uint64_t size() const { return mapping_.size(); }
    [[nodiscard]] std::span<std::byte> bytes() const { return mapping_.bytes(); }
    [[nodiscard]] explicit operator bool() const { return bool(fd_); }

    // No process can map it writable from now on; maps that exist keep working. Size and seals are frozen.
    Result<void> seal_against_writers();
    // Freezes the size only: for memory that another process must write (return pages, worker channels).
    Result<void> seal_size();

    // A descriptor to send to somebody who may only read.
    [[nodiscard]] Result<UniqueFd> read_only_fd() const;
    // The descriptor itself, for somebody who must write.
    [[nodiscard]] int writable_fd() const { return fd_.get(); }

  private:
    [[nodiscard]] Result<UniqueFd> reopened(int access) const;

    UniqueFd fd_;
    Mapping mapping_;
};

// Bytes the machine could still give: MemAvailable, and what the control groups leave.
std::uint64_t available_memory();

}  // namespace sl
