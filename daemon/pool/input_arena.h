// The input arena: reserved shared memory for file bytes on their way from the reader to the workers.
//
// The daemon writes (through the reader), workers map it read-only. Allocation is first fit over whole pages
// with a map of free ranges in private memory; buffers live for milliseconds and are few (tens), so this is
// simple and quick. Owned by the conductor thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "shm/segment.h"

namespace sl {

class InputArena {
  public:
    static Result<InputArena> create(std::uint64_t bytes);

    // Offset of a free range of at least `bytes`; nothing if there is none now.
    std::optional<std::uint64_t> allocate(std::uint64_t bytes);
    void release(std::uint64_t offset, std::uint64_t bytes);
    // What such a range takes of the arena.
    static std::uint64_t footprint(std::uint64_t bytes);

    [[nodiscard]] std::byte* at(std::uint64_t offset) const { return segment_.data() + offset; }
    [[nodiscard]] std::uint64_t capacity() const { return segment_.size(); }
    [[nodiscard]] std::uint64_t used() const { return used_; }
    [[nodiscard]] const Segment& segment() const { return segment_; }

  private:
    Segment segment_;
    std::map<std::uint64_t, std::uint64_t> free_;  // offset -> length, never adjacent
    std::uint64_t used_ = 0;
};

}  // namespace sl
