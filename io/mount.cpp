// See mount.h.
#include "io/mount.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace sl {

namespace {

// Of file systems whose numbers <linux/magic.h> lacks: CIFS, Lustre, GPFS, BeeGFS, OrangeFS.
constexpr std::array<std::uint64_t, 5> kOtherNetworks = {0xFF534D42, 0x0BD00BD0, 0x47504653, 0x19830326,
                                                         0x20030528};
constexpr std::array<std::uint64_t, 8> kNetworks = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  SMB2_SUPER_MAGIC,
                                                    CEPH_SUPER_MAGIC, FUSE_SUPER_MAGIC, V9FS_MAGIC,
                                                    AFS_SUPER_MAGIC,  CODA_SUPER_MAGIC};

bool is_one_of(const auto& list, std::uint64_t type) {
    return std::ranges::find(list, type) != list.end();
}

}  // namespace

Mount mount_of(const std::string& path, const Reach* reach) {
    if (reach != nullptr) {
        const UniqueFd folder(reach->open(path.c_str(), O_RDONLY | O_DIRECTORY));
        Mount mount = folder ? mount_of("/proc/self/fd/" + std::to_string(folder.get())) : Mount{0, true};
        mount.user = reach->user().uid;
        return mount;
    }
    struct stat status = {};
    struct statfs system = {};
    if (::stat(path.c_str(), &status) != 0) return {0, true};
    if (::statfs(path.c_str(), &system) != 0) return {status.st_dev, true};
    auto type = static_cast<std::uint64_t>(static_cast<std::uint32_t>(system.f_type));
    return {status.st_dev, is_one_of(kNetworks, type) || is_one_of(kOtherNetworks, type)};
}

}  // namespace sl
