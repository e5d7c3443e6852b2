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

Result<MemoryBudget::Share> MemoryBudget::reserve(std::uint64_t bytes, std::string_view what) {
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
    return Share(this, bytes);
}

}  // namespace sl
