#include "daemon/pool/input_arena.h"

#include <algorithm>
#include <iterator>

#include "shm/layout.h"

namespace sl {

std::uint64_t InputArena::footprint(std::uint64_t bytes) {
    return (std::max<std::uint64_t>(bytes, 1) + SL_SHM_PAGE - 1) / SL_SHM_PAGE * SL_SHM_PAGE;
}

Result<InputArena> InputArena::create(std::uint64_t bytes) {
    auto segment = Segment::create("speedyloader-input", bytes);
    if (!segment) return std::unexpected(std::move(segment).error().because("input buffers"));
    if (auto sealed = segment->seal_against_writers(); !sealed) return std::unexpected(sealed.error());
    InputArena arena;
    arena.segment_ = std::move(*segment);
    arena.free_[0] = arena.segment_.size();
    return arena;
}

std::optional<std::uint64_t> InputArena::allocate(std::uint64_t bytes) {
    if (bytes > capacity()) return std::nullopt;  // also keeps the rounding below from wrapping around
    std::uint64_t wanted = footprint(bytes);
    auto found = std::ranges::find_if(free_, [&](const auto& range) { return range.second >= wanted; });
    if (found == free_.end()) return std::nullopt;
    auto [offset, length] = *found;
    free_.erase(found);
    if (length > wanted) free_[offset + wanted] = length - wanted;
    used_ += wanted;
    return offset;
}

void InputArena::release(std::uint64_t offset, std::uint64_t bytes) {
    std::uint64_t length = footprint(bytes);
    used_ -= length;
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && offset + length == next->first) {
        length += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin()) {
        auto previous = std::prev(next);
        if (previous->first + previous->second == offset) {
            previous->second += length;
            return;
        }
    }
    free_[offset] = length;
}

}  // namespace sl
