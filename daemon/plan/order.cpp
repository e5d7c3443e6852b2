// The keyed bijection behind an epoch's order; see order.h. Pure, thread-safe, cannot fail.
#include "daemon/plan/order.h"

#include <cmath>

#include "daemon/plan/random.h"

namespace sl {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014; constants by Stafford): every input bit changes about
// half of the output bits.
std::uint64_t mix(std::uint64_t v) {
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ULL;
    v = (v ^ (v >> 27)) * 0x94D049BB133111EBULL;
    return v ^ (v >> 31);
}

// A round's keyed function: a number in [0, modulus).
std::uint64_t round_value(std::uint64_t key, std::uint64_t half, std::uint64_t modulus) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(mix(key + half)) * modulus) >> 64);
}

std::uint64_t add(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) {
    const std::uint64_t sum = a + b;
    return sum >= modulus ? sum - modulus : sum;
}

std::uint64_t subtract(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) {
    return a >= b ? a - b : a + modulus - b;
}

// Smallest r with r * r >= n, for n up to 2^63. The floating root is off by at most one step either way.
std::uint64_t root_up(std::uint64_t n) {
    auto r = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
    while (r > 0 && (r - 1) * (r - 1) >= n)
        --r;
    while (r * r < n)
        ++r;
    return r;
}

}  // namespace

Order::Order(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch, bool shuffle) : n_(n) {
    if (!shuffle || n < 2) return;
    rounds_ = n <= kSmall ? kSmallRounds : kRounds;
    rows_ = root_up(n);
    columns_ = (n + rows_ - 1) / rows_;
    Random random({.seed = seed, .epoch = epoch, .sample_id = 0}, kOrderSlot);
    for (std::uint64_t& key : round_keys_)
        key = random.next();
}

std::uint64_t Order::forward(std::uint64_t value) const {
    std::uint64_t left = value / columns_;
    std::uint64_t right = value % columns_;
    for (unsigned round = 0; round < rounds_; round += 2) {
        left = add(left, round_value(round_keys_[round], right, rows_), rows_);
        right = add(right, round_value(round_keys_[round + 1], left, columns_), columns_);
    }
    return left * columns_ + right;
}

std::uint64_t Order::backward(std::uint64_t value) const {
    std::uint64_t left = value / columns_;
    std::uint64_t right = value % columns_;
    for (unsigned round = rounds_; round > 0; round -= 2) {
        right = subtract(right, round_value(round_keys_[round - 1], left, columns_), columns_);
        left = subtract(left, round_value(round_keys_[round - 2], right, rows_), rows_);
    }
    return left * columns_ + right;
}

std::uint64_t Order::id_at(std::uint64_t position) const {
    if (rounds_ == 0 || position >= n_) return position;
    // Ends: a bijection's cycle through a point of [0, n) comes back to [0, n).
    do
        position = forward(position);
    while (position >= n_);
    return position;
}

std::uint64_t Order::position_of(std::uint64_t id) const {
    if (rounds_ == 0 || id >= n_) return id;
    do
        id = backward(id);
    while (id >= n_);
    return id;
}

}  // namespace sl
