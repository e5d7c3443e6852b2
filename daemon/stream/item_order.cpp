#include "daemon/stream/item_order.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/plan/items.h"

namespace sl {

namespace {

constexpr double kLeastMean = 1e-300;  // hints are divided by it
constexpr std::uint64_t kBlock = 512;  // what st_blocks counts in

Result<void> check_memory(int fd, std::uint64_t bytes) {
    // Seals first: only a memfd has any, and what else it may be could take its time to be looked at.
    constexpr int kWanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & kWanted) != kWanted) {
        return fail(Status::kInvalidArgument,
                    "the items' memory is not sealed against shrinking, growing and writing");
    }
    struct stat info {};
    if (::fstat(fd, &info) != 0)
        return std::unexpected(os_error(Status::kInvalidArgument, "cannot examine the items", errno));
    if (static_cast<std::uint64_t>(info.st_size) != bytes) {
        return fail(Status::kInvalidArgument, "the items' memory has " + std::to_string(info.st_size) +
                                                  " bytes, allowed: " + std::to_string(bytes) +
                                                  ", as their count says");
    }
    // What was never written would be made here, page by page, at the daemon's cost.
    if (static_cast<std::uint64_t>(info.st_blocks) * kBlock < bytes)
        return fail(Status::kInvalidArgument, "the items' memory has not been written as a whole");
    return {};
}

}  // namespace

Result<std::shared_ptr<const ItemOrder>> ItemOrder::take(int fd, std::uint64_t count, bool has_hints) {
    if (count == 0 || count > kMaxItems) {
        return fail(Status::kInvalidArgument, "an order of " + std::to_string(count) +
                                                  " items, allowed: 1 to " + std::to_string(kMaxItems) +
                                                  "; open a longer one as several streams");
    }
    const std::uint64_t bytes = count * sizeof(std::uint64_t) * (has_hints ? 2 : 1);
    if (auto good = check_memory(fd, bytes); !good) return std::unexpected(std::move(good).error());
    auto mapping = Mapping::map(fd, bytes, Access::kReadOnly);
    if (!mapping) return std::unexpected(std::move(mapping).error());
    std::shared_ptr<ItemOrder> order(new ItemOrder);
    order->mapping_ = std::move(*mapping);
    order->items_ = {reinterpret_cast<const std::uint64_t*>(order->mapping_.data()), count};
    if (has_hints) order->hints_ = {reinterpret_cast<const double*>(order->mapping_.data()) + count, count};
    if (auto good = order->examine(); !good) return std::unexpected(std::move(good).error());
    return order;
}

Result<void> ItemOrder::examine() {
    for (const std::uint64_t item : items_) {
        const bool nobody = item == SL_SHM_NO_ITEM;
        nobodies_ += nobody ? 1 : 0;
        items_end_ = std::max(items_end_, nobody ? 0 : item + 1);
    }
    fingerprint_ = XXH3_64bits(items_.data(), items_.size_bytes());
    const double share = 1 / std::max(static_cast<double>(hints_.size()), 1.0);
    double sum = 0;
    for (std::uint64_t position = 0; position < hints_.size(); ++position) {
        const double hint = hints_[position];
        if (!std::isfinite(hint) || hint <= 0) {
            return fail(Status::kInvalidArgument, "the cost hint of position " + std::to_string(position) +
                                                      " is " + std::to_string(hint) +
                                                      ", allowed: a finite number above 0");
        }
        sum += hint * share;  // a sum of all may be more than a double holds
    }
    if (!hints_.empty()) mean_hint_ = std::clamp(sum, kLeastMean, std::numeric_limits<double>::max());
    return {};
}

std::uint64_t ItemOrder::nobodies(std::uint64_t begin, std::uint64_t end) const {
    if (nobodies_ == 0) return 0;
    return static_cast<std::uint64_t>(
        std::ranges::count(items_.subspan(begin, end - begin), std::uint64_t{SL_SHM_NO_ITEM}));
}

}  // namespace sl
