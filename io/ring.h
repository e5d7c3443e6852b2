// One io_uring: its creation, what the kernel can do on it, and the memory registered with it.
//
// Used by uring_reader only, on the conductor's thread. Creation answers an Error whose os_errno says why
// io_uring is not to be had. Registration of memory is an extra: its refusal is told in description().
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shm/error.h"

namespace sl {

// The part of a destination that one fixed read can reach, or none of it.
struct FixedPiece {
    int buffer = -1;           // index for IORING_OP_READ_FIXED, -1: not in registered memory
    std::uint64_t length = 0;  // bytes a single operation may fill
};

class Ring {
  public:
    // Asks for `entries`; as long as that is refused for its size, for half of it, down to 32 (or to 2 when
    // fewer than 32 were asked for). `event_fd` is signalled with every completion.
    static Result<std::unique_ptr<Ring>> create(unsigned entries, std::span<std::byte> memory, int event_fd);

    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring();

    [[nodiscard]] io_uring* get() { return &ring_; }
    // Operations that may be in the kernel at once. One place of the completion queue is kept for a
    // cancellation, so that it can never overflow.
    [[nodiscard]] unsigned capacity() const { return ring_.cq.ring_entries - 1; }
    [[nodiscard]] FixedPiece fixed_piece(const std::byte* destination, std::uint64_t length) const;
    [[nodiscard]] std::string description() const;

  private:
    Ring() = default;
    [[nodiscard]] int set_up(unsigned entries);
    [[nodiscard]] int check_operations();
    void register_memory(std::span<std::byte> memory);

    io_uring ring_ = {};
    bool made_ = false;
    unsigned asked_ = 0;
    std::span<std::byte> registered_;
    int registration_error_ = 0;
};

}  // namespace sl
