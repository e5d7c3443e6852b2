// See unsafe_files.h.
#include "io/unsafe_files.h"

#include <linux/magic.h>
#include <sys/vfs.h>

namespace sl {

namespace {

// Device numbers of mounts are used again after an unmount, so what is known of one ages.
constexpr std::chrono::seconds kKnownFor{1};

}  // namespace

bool is_on_fuse(int fd) {
    struct statfs status = {};
    return ::fstatfs(fd, &status) != 0 || status.f_type == FUSE_SUPER_MAGIC;
}

void UnsafeFiles::opened(int fd, dev_t device) {
    opened_elsewhere(fd, is_fuse(fd, device));
}

void UnsafeFiles::opened_elsewhere(int fd, bool unsafe) {
    auto index = static_cast<std::size_t>(fd);
    if (index >= unsafe_.size()) unsafe_.resize(index + 1);
    unsafe_[index] = unsafe;
}

bool UnsafeFiles::contains(int fd) const {
    return fd >= 0 && static_cast<std::size_t>(fd) < unsafe_.size() && unsafe_[static_cast<std::size_t>(fd)];
}

bool UnsafeFiles::is_fuse(int fd, dev_t device) {
    auto now = std::chrono::steady_clock::now();
    auto [place, is_new] = devices_.try_emplace(device);
    Device& known = place->second;
    if (!is_new && now - known.asked < kKnownFor) return known.is_fuse;
    known.is_fuse = is_on_fuse(fd);
    known.asked = now;
    return known.is_fuse;
}

}  // namespace sl
