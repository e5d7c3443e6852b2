// SHA-256 by the letter of FIPS 180-4, sections 4.1.2, 4.2.2, 5.1.1 and 6.2; see sha256.h.
#include "bindings/cli/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "bindings/cli/sha256_x86.h"

namespace sl::cli {

namespace {

constexpr std::size_t kBlock = 64;

constexpr std::array<std::uint32_t, 8> kInitial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big(const std::byte* bytes) {
    std::uint32_t word;
    std::memcpy(&word, bytes, sizeof word);
    return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

std::uint32_t small_sigma0(std::uint32_t x) {
    return std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3);
}
std::uint32_t small_sigma1(std::uint32_t x) {
    return std::rotr(x, 17) ^ std::rotr(x, 19) ^ (x >> 10);
}
std::uint32_t big_sigma0(std::uint32_t x) {
    return std::rotr(x, 2) ^ std::rotr(x, 13) ^ std::rotr(x, 22);
}
std::uint32_t big_sigma1(std::uint32_t x) {
    return std::rotr(x, 6) ^ std::rotr(x, 11) ^ std::rotr(x, 25);
}

}  // namespace

Sha256::Sha256(bool portable) : portable_(portable || !sha256_x86::usable()) {
    reset();
}

void Sha256::reset() {
    state_ = kInitial;
    pending_bytes_ = 0;
    total_bytes_ = 0;
}

void Sha256::compress(const std::byte* blocks, std::size_t count) {
    if (!portable_) return sha256_x86::compress(state_, kRounds, blocks, count);
    for (; count > 0; --count, blocks += kBlock) {
        std::array<std::uint32_t, 64> w;
        for (std::size_t t = 0; t < 16; ++t)
            w[t] = load_big(blocks + 4 * t);
        for (std::size_t t = 16; t < 64; ++t) {
            w[t] = small_sigma1(w[t - 2]) + w[t - 7] + small_sigma0(w[t - 15]) + w[t - 16];
        }
        auto [a, b, c, d, e, f, g, h] = state_;
        for (std::size_t t = 0; t < 64; ++t) {
            std::uint32_t t1 = h + big_sigma1(e) + ((e & f) ^ (~e & g)) + kRounds[t] + w[t];
            std::uint32_t t2 = big_sigma0(a) + ((a & b) ^ (a & c) ^ (b & c));
            h = g;
            g = f;
            f = e;
            e = d + t1;
            d = c;
            c = b;
            b = a;
            a = t1 + t2;
        }
        const std::array<std::uint32_t, 8> next = {a, b, c, d, e, f, g, h};
        for (std::size_t i = 0; i < 8; ++i)
            state_[i] += next[i];
    }
}

void Sha256::update(std::span<const std::byte> bytes) {
    total_bytes_ += bytes.size();
    if (pending_bytes_ > 0) {
        std::size_t taken = std::min(bytes.size(), kBlock - pending_bytes_);
        std::copy_n(bytes.begin(), taken, pending_.begin() + pending_bytes_);
        pending_bytes_ += taken;
        bytes = bytes.subspan(taken);
        if (pending_bytes_ < kBlock) return;
        compress(pending_.data(), 1);
        pending_bytes_ = 0;
    }
    compress(bytes.data(), bytes.size() / kBlock);
    bytes = bytes.subspan(bytes.size() / kBlock * kBlock);
    std::copy(bytes.begin(), bytes.end(), pending_.begin());
    pending_bytes_ = bytes.size();
}

std::string Sha256::finish() {
    const std::uint64_t bits = total_bytes_ * 8;
    std::array<std::byte, 2 * kBlock> padding{};
    padding[0] = std::byte{0x80};
    // A one bit, zeros, and the length in the last eight bytes of a block.
    const std::size_t zeros_end = (pending_bytes_ < 56 ? 56 : 120) - pending_bytes_;
    for (std::size_t i = 0; i < 8; ++i) {
        padding[zeros_end + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
    }
    update(std::span(padding).first(zeros_end + 8));

    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (std::uint32_t word : state_) {
        for (int shift = 28; shift >= 0; shift -= 4)
            text += kDigits[(word >> shift) & 0xf];
    }
    reset();
    return text;
}

}  // namespace sl::cli
