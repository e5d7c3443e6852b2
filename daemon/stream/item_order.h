// The order of a stream of items, as its client gives it: the item of each position, and what it may cost.
//
// Made of what came in through an ItemInbox, then constant and safe to read from any thread; its end is the
// conductor's, whose budget it is in. of() looks at each position once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/stream/memory_budget.h"
#include "shm/error.h"
#include "shm/layout.h"

namespace sl {

class ItemOrder {
  public:
    // `words`: `count` items, and as many hints or none. kInvalidArgument: a hint that is none.
    static Result<std::shared_ptr<const ItemOrder>> of(std::vector<std::uint64_t> words, std::uint64_t count,
                                                       MemoryBudget::Share room = {});

    [[nodiscard]] std::uint64_t size() const { return items_.size(); }
    // For position < size(); the caller keeps that bound.
    [[nodiscard]] std::uint64_t item(std::uint64_t position) const { return items_[position]; }
    [[nodiscard]] bool is_nobody(std::uint64_t position) const { return items_[position] == SL_SHM_NO_ITEM; }
    [[nodiscard]] double hint(std::uint64_t position) const { return hints_.empty() ? 1 : hints_[position]; }

    // The largest item + 1; 0 if all positions are nobody's.
    [[nodiscard]] std::uint64_t items_end() const { return items_end_; }
    [[nodiscard]] std::uint64_t nobodies() const { return nobodies_; }
    // Of positions [begin, end).
    [[nodiscard]] std::uint64_t nobodies(std::uint64_t begin, std::uint64_t end) const;
    [[nodiscard]] double mean_hint() const { return mean_hint_; }
    // Of the items and their order, not of the hints.
    [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

  private:
    ItemOrder() = default;
    Result<void> examine();

    MemoryBudget::Share room_;
    std::vector<std::uint64_t> items_;
    std::vector<double> hints_;
    std::uint64_t items_end_ = 0;
    std::uint64_t nobodies_ = 0;
    double mean_hint_ = 1;
    std::uint64_t fingerprint_ = 0;
};

}  // namespace sl
