// Random numbers as a pure function of a key: Philox4x32-10, a counter-based generator.
//
// Used by the draws (crop boxes, flips) and by the order. There is no hidden state: the same (seed, epoch,
// sample id, slot) gives the same numbers in any process, on any worker, in any order of calls. A `Random` is
// a small value owned by one thread. Nothing here can fail.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/plan/pipeline.h"

namespace sl {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// One block of four random words: ten rounds over `counter` with `key`.
PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

// Limits of the mapping below. Slots up to kMaxOps - 1 belong to a pipeline's ops.
inline constexpr std::uint64_t kEpochLimit = 1ULL << 48;  // epochs are 0 .. kEpochLimit - 1
inline constexpr std::uint32_t kSlotLimit = 16;
inline constexpr std::uint32_t kOrderSlot = 15;   // the order's own numbers, with sample id 0
inline constexpr std::uint32_t kSubsetSlot = 14;  // a fraction's choice, with seed and epoch 0
static_assert(kMaxOps <= kSubsetSlot);

// The numbers of one (seed, epoch, sample id, slot). Every key has its own counters by construction, since
// each field has bits of its own:
//
//   key[0..1]      seed, low word first
//   counter[0..1]  sample id, low word first
//   counter[2]     epoch, bits 0..31
//   counter[3]     bits 0..11 block number | 12..15 slot | 16..31 epoch, bits 32..47
//
// A block gives two 64-bit words, so a key has 8,192 of them. A pipeline's op uses fewer than 50.
class Random {
  public:
    Random(const DrawKey& key, std::uint32_t slot);

    // 64 random bits.
    std::uint64_t next();

    // Uniform in [0, 1), a multiple of 2^-53.
    double uniform();

    // Uniform in [low, high).
    double uniform(double low, double high) { return low + uniform() * (high - low); }

    // Uniform in [0, n) without bias; 0 for n = 0.
    std::uint64_t below(std::uint64_t n);

  private:
    PhiloxKey key_{};
    PhiloxCounter counter_{};
    std::array<std::uint64_t, 2> words_{};
    std::uint32_t block_ = 0;
    std::uint32_t used_ = 2;  // words of the current block already given out
};

}  // namespace sl
