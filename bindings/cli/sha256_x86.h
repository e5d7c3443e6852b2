// The compression function of SHA-256 with the processor's SHA instructions, ten times the plain one's speed:
// a test hashes whole epochs. Used by sha256.cpp only, where usable() says so. Any thread; it cannot fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sl::cli::sha256_x86 {

// Whether this processor has the instructions; always false elsewhere than on x86-64.
bool usable();

// Takes `count` blocks of 64 bytes into the state. rounds: the 64 constants of FIPS 180-4, 4.2.2.
void compress(std::array<std::uint32_t, 8>& state, const std::array<std::uint32_t, 64>& rounds,
              const std::byte* blocks, std::size_t count);

}  // namespace sl::cli::sha256_x86
