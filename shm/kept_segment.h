// A segment that its maker has given up, and that somebody else may keep.
//
// Whoever was sent a descriptor can hold the memory for ever, and the kernel goes on charging it to the
// maker. This asks the kernel whether anybody does: a write lease (fcntl(2), F_SETLEASE) is granted on a file
// that nobody else has open or mapped, and is given back at once. It costs a descriptor, which holds the
// memory as well, so one that is kept no longer should be dropped soon. Not thread-safe.
#pragma once

#include "shm/segment.h"

namespace sl {

class KeptSegment {
  public:
    // Gives up the segment: its map and its descriptor go. An error (no descriptor is left, ...): it cannot
    // be told who keeps it.
    static Result<KeptSegment> of(Segment segment);

    // Whether a process has a descriptor of it, one that is on its way through a socket included, or a map.
    // False as well where the kernel gives no leases (fs.leases-enable).
    [[nodiscard]] bool is_kept() const;

  private:
    explicit KeptSegment(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;  // read-only
};

}  // namespace sl
