// The sequence of an epoch: which sample id stands at which position, whatever the dataset is made of.
//
// Made by the dataset for (seed, epoch, shuffle); the batch plan asks it. The order of one folder's samples,
// of those selected of it, or of a mix. An immutable value that shares what it is made of; any thread;
// lookups allocate nothing and cannot fail.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/plan/mix.h"
#include "daemon/plan/order.h"
#include "daemon/plan/subset.h"

namespace sl {

class Sequence {
  public:
    // Ids are what the order gives.
    Sequence(const Order& order) : order_(order) {}  // NOLINT: an order is a sequence
    // Ids are those of the selection, which has as many as the order.
    Sequence(const Order& order, std::shared_ptr<const Selection> selection)
        : order_(order), selection_(std::move(selection)) {}
    explicit Sequence(std::shared_ptr<const MixOrder> mix) : mix_(std::move(mix)) {}

    // Samples of the epoch.
    [[nodiscard]] std::uint64_t size() const { return mix_ ? mix_->size() : order_.size(); }

    // For position < size(); the caller keeps that bound.
    [[nodiscard]] std::uint64_t id_at(std::uint64_t position) const {
        if (mix_) return mix_->id_at(position);
        const std::uint64_t index = order_.id_at(position);
        return selection_ ? selection_->id_at(index) : index;
    }

    // Its inverse; nothing for an id that is not in this epoch.
    [[nodiscard]] std::optional<std::uint64_t> position_of(std::uint64_t id) const {
        if (mix_) return mix_->position_of(id);
        const auto index = selection_ ? selection_->index_of(id) : std::optional(id);
        if (!index || *index >= order_.size()) return std::nullopt;
        return order_.position_of(*index);
    }

  private:
    Order order_{0, 0, 0, false};
    std::shared_ptr<const Selection> selection_;
    std::shared_ptr<const MixOrder> mix_;
};

}  // namespace sl
