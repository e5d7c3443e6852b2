// One budget for all shared memory of the daemon: bytes are reserved here before a segment is made.
//
// Owned by the conductor thread. Too much is a clear error with the numbers needed and available, both
// against the configured budget and against what the machine still has (a memfd's reservation would else be
// met by the kernel's memory killer instead of an error).
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "shm/error.h"

namespace sl {

class MemoryBudget {
  public:
    explicit MemoryBudget(std::uint64_t total) : total_(total) {}

    // A reservation; gives its bytes back when it dies.
    class Share {
      public:
        Share() = default;
        Share(Share&& other) noexcept
            : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
        Share& operator=(Share&& other) noexcept {
            std::swap(budget_, other.budget_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        ~Share() {
            if (budget_ != nullptr) budget_->reserved_ -= bytes_;
        }
        [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

      private:
        friend class MemoryBudget;
        Share(MemoryBudget* budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {}
        MemoryBudget* budget_ = nullptr;
        std::uint64_t bytes_ = 0;
    };

    // kBudget: "<what> needs N bytes; M of a budget of T are available ...".
    Result<Share> reserve(std::uint64_t bytes, std::string_view what);

    [[nodiscard]] std::uint64_t total() const { return total_; }
    [[nodiscard]] std::uint64_t reserved() const { return reserved_; }

  private:
    std::uint64_t total_;
    std::uint64_t reserved_ = 0;
};

// "1.5 GiB (1610612736 bytes)".
std::string describe_bytes(std::uint64_t bytes);

}  // namespace sl
