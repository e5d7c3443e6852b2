// Batch membership: which samples make up batch b of one rank's epoch, known before any byte is read.
//
// Used by the scheduler and the assembler. Pure functions of (sequence, rules): a plan is an immutable value
// of a few hundred bytes, any thread may use it, and nothing here allocates or fails after make(). Positions
// are places in the epoch's sequence, which turns them into sample ids.
//
// n samples, B = batch size, W = world size, g = B x W the global batch. Global batch b covers the positions
// [b x g, (b + 1) x g), and rank r takes the B positions from b x g + r x B: so the same global batches come
// out for any W with the same g. What is left, t = n mod g positions, is the tail:
//
//   last   uneven  batches    the tail's batch on each rank
//   drop   any     n / g      none; the t positions are left out of this epoch
//   keep   pad     + 1        ceil(t / W) members; where a rank has one too few, a repeat with valid = 0
//   keep   wrap    + 1        the same, but the repeat is valid (a sample seen twice)
//   keep   drop    + 1        floor(t / W) members, no repeats; t mod W positions are left out, and there is
//                             no tail batch at all if t < W
//   pad    (each)  as keep    as keep, then repeats with valid = 0 up to B members
//
// So with one rank: drop gives floor(n / B) batches; keep gives ceil(n / B), the last with its true count;
// pad gives ceil(n / B) full ones. The tail is split evenly: each rank gets floor(t / W) consecutive
// positions and the first t mod W ranks one more. Repeats take the epoch's first positions in turn (again
// from the start if there are too few), rank after rank. Every rank has the same number of batches, each with
// the same number of members, whatever happens to a sample on the way.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/plan/sequence.h"
#include "shm/error.h"

namespace sl {

enum class LastBatch : std::uint32_t { kDrop = 0, kKeep = 1, kPad = 2 };
enum class Uneven : std::uint32_t { kPad = 0, kDrop = 1, kWrap = 2 };

inline constexpr std::uint32_t kMaxBatchSize = 1U << 20;
inline constexpr std::uint32_t kMaxWorldSize = 1U << 16;

struct BatchRules {
    std::uint32_t size = 64;
    LastBatch last = LastBatch::kDrop;
    std::uint32_t rank = 0;
    std::uint32_t world_size = 1;
    Uneven uneven = Uneven::kPad;
    bool operator==(const BatchRules&) const = default;
};

struct Member {
    std::uint64_t position = 0;
    std::uint64_t id = 0;
    bool valid = true;    // false: a filler that the training must not count
    bool repeat = false;  // this position also has its own place in the epoch
    bool operator==(const Member&) const = default;
};

class BatchPlan {
  public:
    // kInvalidArgument for rules out of range; kSpec, with the numbers, if the epoch would have no batch
    // although there are samples, or too few for `drop`.
    static Result<BatchPlan> make(const Sequence& sequence, const BatchRules& rules);

    // Batches of this epoch, the same on every rank.
    [[nodiscard]] std::uint64_t batches() const { return full_ + (tail_members_ > 0 ? 1 : 0); }

    // Members of batch b on each rank, fillers included; 0 if there is no such batch.
    [[nodiscard]] std::uint32_t members(std::uint64_t batch) const;

    // Member i of this rank's batch b. Needs batch < batches() and i < members(batch).
    [[nodiscard]] Member member(std::uint64_t batch, std::uint32_t i) const;

    // The first position of global batch b, where a resumed stream continues.
    [[nodiscard]] std::uint64_t first_position(std::uint64_t batch) const { return batch * global_size_; }

    // Positions that this epoch leaves out (drop); the same on every rank.
    [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

    // The k-th sample to deliver instead of member i of this rank's batch b, for errors.policy "refill": the
    // positions after the global batch in the epoch's circular order, dealt out in turn. Never one of the
    // global batch, and never the same for two (rank, i, k) of it; nullopt once there are no more. The
    // substitute keeps its own place in the epoch.
    [[nodiscard]] std::optional<Member> substitute(std::uint64_t batch, std::uint32_t i,
                                                   std::uint64_t k) const;

    [[nodiscard]] const Sequence& sequence() const { return sequence_; }
    [[nodiscard]] const BatchRules& rules() const { return rules_; }

  private:
    BatchPlan(const Sequence& sequence, const BatchRules& rules);

    [[nodiscard]] Member at(std::uint64_t position, bool valid, bool repeat) const;
    [[nodiscard]] Member tail_member(std::uint32_t i) const;

    Sequence sequence_;
    BatchRules rules_;
    std::uint64_t global_size_ = 0;
    std::uint64_t full_ = 0;  // global batches before the tail
    std::uint64_t left_out_ = 0;
    std::uint64_t tail_base_ = 0;          // floor(t / W): every rank's share
    std::uint64_t tail_extra_ = 0;         // ranks with one more
    std::uint32_t tail_even_ = 0;          // members a rank has once the ranks are even
    std::uint32_t tail_members_ = 0;       // members a rank has once the batch is full; 0: no tail batch
    std::uint64_t tail_even_repeats_ = 0;  // repeats, over all ranks, that make the ranks even
    std::uint64_t tail_repeats_ = 0;       // all repeats, over all ranks
};

}  // namespace sl
