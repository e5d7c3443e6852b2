// Counts the system calls that were given up and have not returned, by mount, and says when a mount is out
// of service: with so many of them, one more would only be stuck too.
//
// Each back end has its own; no thread safety of its own. A mount is back in service as soon as the kernel
// lets go of one of its calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace sl {

class HungMounts {
  public:
    static constexpr std::size_t kMostOfOne = 8;  // of one mount
    static constexpr std::size_t kMost = 32;      // of all: beyond, any mount with one is out of service

    void add(std::uint64_t device) {
        ++by_device_[device];
        ++total_;
    }
    void remove(std::uint64_t device) {
        --total_;
        if (auto found = by_device_.find(device); --found->second == 0) by_device_.erase(found);
    }
    [[nodiscard]] bool out_of_service(std::uint64_t device) const {
        auto found = by_device_.find(device);
        return found != by_device_.end() && (found->second >= kMostOfOne || total_ >= kMost);
    }
    [[nodiscard]] std::size_t total() const { return total_; }

  private:
    std::map<std::uint64_t, std::size_t> by_device_;
    std::size_t total_ = 0;
};

}  // namespace sl
