// Counts the system calls that were given up and have not returned, by user and mount, and says where no more
// are to be made: with so many of them, one more would only be stuck too.
//
// Each back end has its own; no thread safety of its own. A mount is back in service as soon as the kernel
// lets go of one of its calls. What hangs for one user costs no other anything.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "io/mount.h"

namespace sl {

class HungMounts {
  public:
    static constexpr std::size_t kMostOfOne = 8;  // of one user's on one mount
    static constexpr std::size_t kMany = 32;  // of one user's: beyond, any mount with one is out of service
    static constexpr std::size_t kMost = 64;  // of one user's: beyond, all its mounts are

    void add(const Mount::Key& of) {
        ++by_mount_[of];
        ++by_user_[of.user];
        ++total_;
    }
    void remove(const Mount::Key& of) {
        --total_;
        if (auto found = by_mount_.find(of); --found->second == 0) by_mount_.erase(found);
        if (auto found = by_user_.find(of.user); --found->second == 0) by_user_.erase(found);
    }
    [[nodiscard]] bool out_of_service(const Mount::Key& wanted) const {
        const std::size_t here = count(by_mount_, wanted);
        const std::size_t of_user = count(by_user_, wanted.user);
        return here >= kMostOfOne || (here > 0 && of_user >= kMany) || of_user >= kMost;
    }
    [[nodiscard]] std::size_t total() const { return total_; }

  private:
    static std::size_t count(const auto& counts, const auto& key) {
        auto found = counts.find(key);
        return found == counts.end() ? 0 : found->second;
    }

    std::map<Mount::Key, std::size_t> by_mount_;
    std::map<std::optional<uid_t>, std::size_t> by_user_;
    std::size_t total_ = 0;
};

}  // namespace sl
