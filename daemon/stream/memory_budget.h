// One budget for all shared memory of the daemon: bytes are reserved here before a segment is made.
//
// Owned by the conductor thread. Too much is a clear error with the numbers needed and available, both
// against the configured budget and against what the machine still has (a memfd's reservation would else be
// met by the kernel's memory killer instead of an error).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "shm/error.h"

namespace sl {

class MemoryBudget {
  public:
    explicit MemoryBudget(std::uint64_t total) : total_(total) {}

    // For whom bytes are reserved, and how many that user may have altogether; 0: no limit.
    struct Account {
        uid_t uid = 0;
        std::uint64_t most = 0;
    };

    // A reservation; gives its bytes back when it dies.
    class Share {
      public:
        Share() = default;
        Share(Share&& other) noexcept
            : budget_(std::exchange(other.budget_, nullptr)),
              bytes_(std::exchange(other.bytes_, 0)),
              uid_(other.uid_),
              in_total_(other.in_total_) {}
        Share& operator=(Share&& other) noexcept {
            std::swap(budget_, other.budget_);
            std::swap(bytes_, other.bytes_);
            std::swap(uid_, other.uid_);
            std::swap(in_total_, other.in_total_);
            return *this;
        }
        ~Share() { shrink(0); }
        // Gives back all but so many.
        void shrink(std::uint64_t bytes) {
            if (budget_ == nullptr || bytes >= bytes_) return;
            budget_->give_back(bytes_ - bytes, uid_, in_total_);
            bytes_ = bytes;
        }
        // From now on it is on its user's account only.
        void leave_total() {
            if (budget_ != nullptr && std::exchange(in_total_, false)) budget_->reserved_ -= bytes_;
        }
        [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
        [[nodiscard]] std::optional<uid_t> uid() const { return uid_; }  // on whose account it is

      private:
        friend class MemoryBudget;
        Share(MemoryBudget* budget, std::uint64_t bytes, std::optional<uid_t> uid)
            : budget_(budget), bytes_(bytes), uid_(uid) {}
        MemoryBudget* budget_ = nullptr;
        std::uint64_t bytes_ = 0;
        std::optional<uid_t> uid_;
        bool in_total_ = true;
    };

    // kBudget: "<what> needs N bytes; M of a budget of T are available ...".
    Result<Share> reserve(std::uint64_t bytes, std::string_view what, std::optional<Account> account = {});

    // Whether the account has room for them, be there so many or not.
    [[nodiscard]] bool allows(std::uint64_t bytes, const Account& account) const;

    [[nodiscard]] std::uint64_t total() const { return total_; }
    [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
    [[nodiscard]] std::uint64_t reserved_by(uid_t uid) const;

  private:
    void give_back(std::uint64_t bytes, std::optional<uid_t> uid, bool in_total);

    std::uint64_t total_;
    std::uint64_t reserved_ = 0;
    std::map<uid_t, std::uint64_t> by_user_;  // of it, on accounts
};

// "1.5 GiB (1610612736 bytes)".
std::string describe_bytes(std::uint64_t bytes);

}  // namespace sl
