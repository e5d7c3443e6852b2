// Philox4x32-10 and the mapping from a draw's key to its counter; see random.h. Pure, thread-safe, cannot
// fail.
#include "daemon/plan/random.h"

namespace sl {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
constexpr int kRounds = 10;

constexpr std::uint32_t kBlockMask = (1U << 12) - 1;

using Wide = unsigned __int128;

std::uint32_t low_word(std::uint64_t v) {
    return static_cast<std::uint32_t>(v);
}
std::uint32_t high_word(std::uint64_t v) {
    return static_cast<std::uint32_t>(v >> 32);
}

}  // namespace

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t a = std::uint64_t{kMultiplier0} * counter[0];
        const std::uint64_t b = std::uint64_t{kMultiplier1} * counter[2];
        counter = {high_word(b) ^ counter[1] ^ key[0], low_word(b), high_word(a) ^ counter[3] ^ key[1],
                   low_word(a)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

Random::Random(const DrawKey& key, std::uint32_t slot)
    : key_{low_word(key.seed), high_word(key.seed)},
      counter_{low_word(key.sample_id), high_word(key.sample_id), low_word(key.epoch),
               (high_word(key.epoch) << 16) | ((slot & (kSlotLimit - 1)) << 12)} {}

std::uint64_t Random::next() {
    if (used_ == words_.size()) {
        PhiloxCounter counter = counter_;
        counter[3] |= block_++ & kBlockMask;
        const PhiloxCounter out = philox4x32(counter, key_);
        words_ = {(std::uint64_t{out[1]} << 32) | out[0], (std::uint64_t{out[3]} << 32) | out[2]};
        used_ = 0;
    }
    return words_[used_++];
}

double Random::uniform() {
    return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

std::uint64_t Random::below(std::uint64_t n) {
    if (n == 0) return 0;
    // Lemire, "Fast random integer generation in an interval", 2019: the high word of a product is the
    // number; the few low words that some numbers would get once more than others are drawn again.
    Wide product = Wide{next()} * n;
    if (static_cast<std::uint64_t>(product) < n) {
        const std::uint64_t surplus = (0 - n) % n;
        while (static_cast<std::uint64_t>(product) < surplus)
            product = Wide{next()} * n;
    }
    return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace sl
