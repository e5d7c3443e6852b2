#include "daemon/stream/memory_budget.h"

#include <array>
#include <cstdio>
#include <string>

#include "shm/segment.h"

namespace sl {

std::string describe_bytes(std::uint64_t bytes) {
    constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    char text[64];
    if (unit == 0) {
        std::snprintf(text, sizeof text, "%llu bytes", static_cast<unsigned long long>(bytes));
    } else {
        std::snprintf(text, sizeof text, "%.1f %s (%llu bytes)", value, kUnits[unit],
                      static_cast<unsigned long long>(bytes));
    }
    return text;
}

std::uint64_t MemoryBudget::reserved_by(uid_t uid) const {
    auto found = by_user_.find(uid);
    return found == by_user_.end() ? 0 : found->second;
}

void MemoryBudget::give_back(std::uint64_t bytes, std::optional<uid_t> uid, bool in_total) {
    if (in_total) reserved_ -= bytes;
    if (!uid) return;
    auto found = by_user_.find(*uid);
    if ((found->second -= bytes) == 0) by_user_.erase(found);
}

bool MemoryBudget::allows(std::uint64_t bytes, const Account& account) const {
    const std::uint64_t has = reserved_by(account.uid);
    return account.most == 0 || (has <= account.most && bytes <= account.most - has);
}

Result<MemoryBudget::Share> MemoryBudget::reserve(std::uint64_t bytes, std::string_view what,
                                                  std::optional<Account> account) {
    if (account && !allows(bytes, *account)) {
        return fail(Status::kBudget, std::string(what) + " needs " + describe_bytes(bytes) +
                                         " of shared memory, but user " + std::to_string(account->uid) +
                                         " has " + describe_bytes(reserved_by(account->uid)) +
                                         " and may have " + describe_bytes(account->most) +
                                         " ([limits] bytes in the daemon's configuration)");
    }
    std::uint64_t left = total_ - reserved_;
    if (bytes > left) {
        return fail(Status::kBudget,
                    std::string(what) + " needs " + describe_bytes(bytes) + " of shared memory, but " +
                        describe_bytes(left) + " of the daemon's budget of " + describe_bytes(total_) +
                        " are available: make the batch or the number of slots smaller, or raise "
                        "the budget (speedyloaderd --memory)");
    }
    std::uint64_t machine = available_memory();
    if (bytes > machine) {
        return fail(Status::kBudget, std::string(what) + " needs " + describe_bytes(bytes) +
                                         " of shared memory, but the machine has only " +
                                         describe_bytes(machine) + " available");
    }
    reserved_ += bytes;
    if (!account || bytes == 0) return Share(this, bytes, {});
    by_user_[account->uid] += bytes;
    return Share(this, bytes, account->uid);
}

}  // namespace sl
