#include "daemon/stream/item_order.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sl {

namespace {

constexpr double kLeastMean = 1e-300;  // hints are divided by it

}  // namespace

Result<std::shared_ptr<const ItemOrder>> ItemOrder::of(std::vector<std::uint64_t> words, std::uint64_t count,
                                                       MemoryBudget::Share room) {
    std::shared_ptr<ItemOrder> order(new ItemOrder);
    order->room_ = std::move(room);
    order->hints_.resize(words.size() - count);
    if (!order->hints_.empty())
        std::memcpy(order->hints_.data(), words.data() + count, order->hints_.size() * sizeof(double));
    words.resize(count);
    order->items_ = std::move(words);
    if (auto good = order->examine(); !good) return std::unexpected(std::move(good).error());
    return order;
}

Result<void> ItemOrder::examine() {
    for (const std::uint64_t item : items_) {
        const bool nobody = item == SL_SHM_NO_ITEM;
        nobodies_ += nobody ? 1 : 0;
        items_end_ = std::max(items_end_, nobody ? 0 : item + 1);
    }
    fingerprint_ = XXH3_64bits(items_.data(), items_.size() * sizeof(std::uint64_t));
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
        std::ranges::count(std::span(items_).subspan(begin, end - begin), std::uint64_t{SL_SHM_NO_ITEM}));
}

}  // namespace sl
