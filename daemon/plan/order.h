// The order of an epoch: which sample stands at which position. A pure function of (n, seed, epoch).
//
// Used by the batch plan. No index array exists: position -> id and id -> position are each computed in well
// under a microsecond, for any number of samples, from a few dozen bytes. An `Order` is an immutable value;
// any thread may use it. Nothing here can fail.
//
// Method: a Feistel network on pairs (left, right), 0 <= left < rows, 0 <= right < columns, with additions
// modulo rows and columns (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, method 3), where
// rows x columns is the smallest near-square product that covers n. What falls outside [0, n) is sent through
// again (cycle walking, method 2 there); the product exceeds n by less than rows, so that is rare.
#pragma once

#include <array>
#include <cstdint>

namespace sl {

inline constexpr std::uint64_t kMaxSamples = 1ULL << 63;

// Of the algorithm below and its keys. Saved positions carry it: whoever changes which sample stands where
// raises it, so that an old position is refused and not continued elsewhere.
inline constexpr std::uint32_t kOrderVersion = 1;

class Order {
  public:
    // The order of `n` samples (at most kMaxSamples); with `shuffle` false, position and id are equal.
    Order(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch, bool shuffle);

    [[nodiscard]] std::uint64_t size() const { return n_; }

    // The id of the sample at `position`, and back. An argument of n or more is returned as it is.
    [[nodiscard]] std::uint64_t id_at(std::uint64_t position) const;
    [[nodiscard]] std::uint64_t position_of(std::uint64_t id) const;

  private:
    // Measured on pairs of ids: 8 rounds show a bias up to n = 16 or so (5 or 6 samples worst), 16 rounds
    // none.
    static constexpr unsigned kRounds = 8;
    static constexpr unsigned kSmallRounds = 24;
    static constexpr std::uint64_t kSmall = 256;

    [[nodiscard]] std::uint64_t forward(std::uint64_t value) const;
    [[nodiscard]] std::uint64_t backward(std::uint64_t value) const;

    std::uint64_t n_ = 0;
    std::uint64_t rows_ = 1;
    std::uint64_t columns_ = 1;
    unsigned rounds_ = 0;  // 0: no shuffle
    std::array<std::uint64_t, kSmallRounds> round_keys_{};
};

}  // namespace sl
