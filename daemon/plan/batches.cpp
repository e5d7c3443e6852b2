// Which positions a batch holds; the table is in batches.h. Pure and thread-safe; only make() can fail.
#include "daemon/plan/batches.h"

#include <algorithm>
#include <string>

namespace sl {
namespace {

std::string counted(std::uint64_t n, const char* one, const char* many) {
    return std::to_string(n) + " " + (n == 1 ? one : many);
}

Result<void> check_rules(const Sequence& sequence, const BatchRules& rules) {
    if (sequence.size() > kMaxSamples) return fail(Status::kInvalidArgument, "more than 2^63 samples");
    if (rules.size == 0 || rules.size > kMaxBatchSize) {
        return fail(Status::kInvalidArgument, "batch.size must be 1 to " + std::to_string(kMaxBatchSize));
    }
    if (rules.world_size == 0 || rules.world_size > kMaxWorldSize || rules.rank >= rules.world_size) {
        return fail(
            Status::kInvalidArgument,
            "shard.rank must be less than shard.world_size, which is 1 to " + std::to_string(kMaxWorldSize));
    }
    return {};
}

Result<void> check_not_empty(std::uint64_t batches, std::uint64_t n, const BatchRules& rules) {
    if (batches > 0 || (n == 0 && rules.last != LastBatch::kDrop)) return {};
    std::string message = counted(n, "sample", "samples");
    if (rules.last == LastBatch::kDrop) {
        message += " cannot fill one batch of " + std::to_string(rules.size);
        if (rules.world_size > 1) message += " on each of " + std::to_string(rules.world_size) + " ranks";
        message += ": use batch.last keep or pad";
    } else {
        message += " cannot give each of " + std::to_string(rules.world_size) +
                   " ranks one: use shard.uneven pad or wrap";
    }
    return fail(Status::kSpec, std::move(message));
}

}  // namespace

Result<BatchPlan> BatchPlan::make(const Sequence& sequence, const BatchRules& rules) {
    if (auto checked = check_rules(sequence, rules); !checked) return std::unexpected(checked.error());
    BatchPlan plan(sequence, rules);
    if (auto checked = check_not_empty(plan.batches(), sequence.size(), rules); !checked) {
        return std::unexpected(checked.error());
    }
    return plan;
}

BatchPlan::BatchPlan(const Sequence& sequence, const BatchRules& rules) : sequence_(sequence), rules_(rules) {
    const std::uint64_t n = sequence.size();
    const std::uint64_t world = rules.world_size;
    global_size_ = rules.size * world;
    full_ = n / global_size_;
    const std::uint64_t tail = n % global_size_;
    if (rules.last == LastBatch::kDrop) {
        left_out_ = tail;
        return;
    }
    tail_base_ = tail / world;
    tail_extra_ = tail % world;
    if (rules.uneven == Uneven::kDrop) {
        left_out_ = tail_extra_;
        tail_extra_ = 0;
    }
    tail_even_ = static_cast<std::uint32_t>(tail_base_ + (tail_extra_ > 0 ? 1 : 0));
    if (tail_even_ == 0) return;
    tail_members_ = rules.last == LastBatch::kPad ? rules.size : tail_even_;
    tail_even_repeats_ = tail_extra_ > 0 ? world - tail_extra_ : 0;
    tail_repeats_ = tail_even_repeats_ + world * (tail_members_ - tail_even_);
}

std::uint32_t BatchPlan::members(std::uint64_t batch) const {
    if (batch < full_) return rules_.size;
    return batch == full_ ? tail_members_ : 0;
}

Member BatchPlan::at(std::uint64_t position, bool valid, bool repeat) const {
    return {.position = position, .id = sequence_.id_at(position), .valid = valid, .repeat = repeat};
}

Member BatchPlan::member(std::uint64_t batch, std::uint32_t i) const {
    if (batch >= full_) return tail_member(i);
    return at(first_position(batch) + std::uint64_t{rules_.rank} * rules_.size + i, true, false);
}

Member BatchPlan::tail_member(std::uint32_t i) const {
    const std::uint64_t n = sequence_.size();
    const std::uint64_t rank = rules_.rank;
    const std::uint64_t own = tail_base_ + (rank < tail_extra_ ? 1 : 0);
    if (i < own) {
        const std::uint64_t before = rank * tail_base_ + std::min(rank, tail_extra_);
        return at(first_position(full_) + before + i, true, false);
    }
    if (i < tail_even_) return at((rank - tail_extra_) % n, rules_.uneven == Uneven::kWrap, true);
    const std::uint64_t fillers = tail_members_ - tail_even_;
    return at((tail_even_repeats_ + rank * fillers + (i - tail_even_)) % n, false, true);
}

std::optional<Member> BatchPlan::substitute(std::uint64_t batch, std::uint32_t i, std::uint64_t k) const {
    if (i >= members(batch)) return std::nullopt;
    const std::uint64_t n = sequence_.size();
    const std::uint64_t start = first_position(batch);
    // The positions that are free for this batch: `available` of them from `from` on, in circular order.
    std::uint64_t from = start + global_size_;
    std::uint64_t available = n - global_size_;
    if (batch == full_) {
        const std::uint64_t planned = rules_.world_size * tail_base_ + tail_extra_;
        // Repeats stand at the epoch's start, so substitutes begin behind them and end before the tail.
        from = tail_repeats_ > 0 ? tail_repeats_ : start + planned;
        available = tail_repeats_ > 0 ? start - std::min(start, tail_repeats_) : n - planned;
    }
    const std::uint64_t offset = std::uint64_t{rules_.rank} * rules_.size + i;
    if (offset >= available || k > (available - 1 - offset) / global_size_) return std::nullopt;
    const std::uint64_t place = from + offset + k * global_size_;
    const std::uint64_t position = place >= n ? place - n : place;
    return at(position, true, position < n - left_out_);
}

}  // namespace sl
