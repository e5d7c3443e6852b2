// How much memory a decode may take: the limit that daemon and worker set for a worker's own data.
//
// Plain arithmetic, no failure. Shared segments do not count.
#pragma once

#include <cstdint>

namespace sl {

// dataset.max_pixels is at most this.
constexpr std::uint64_t kLargestMaxPixels = 1ULL << 31;

// What codecs take for a pixel at most, whole pictures of every intermediate step together: an interlaced
// 16-bit PNG 8 bytes, a progressive JPEG 6 for its coefficients, HEIC and AVIF about 12 with their reference
// pictures; and 3 for the rows that come out of them.
constexpr std::uint64_t kDecodeBytesPerPixel = 16;
// Libraries, stacks and arenas, and what does not grow with the picture.
constexpr std::uint64_t kDecodeBaseBytes = 1ULL << 29;

constexpr std::uint64_t decode_memory(std::uint64_t max_pixels) {
    return kDecodeBaseBytes + max_pixels * kDecodeBytesPerPixel;
}

}  // namespace sl
