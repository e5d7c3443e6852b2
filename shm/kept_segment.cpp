#include "shm/kept_segment.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace sl {

// The segment's own descriptor ends with the call, so that this one is the only one left.
Result<KeptSegment> KeptSegment::of(Segment segment) {
    auto fd = segment.read_only_fd();
    if (!fd) return std::unexpected(std::move(fd).error());
    return KeptSegment(std::move(*fd));
}

bool KeptSegment::is_kept() const {
    if (::fcntl(fd_.get(), F_SETLEASE, F_WRLCK) != 0) return errno == EAGAIN;
    ::fcntl(fd_.get(), F_SETLEASE, F_UNLCK);
    return false;
}

}  // namespace sl
