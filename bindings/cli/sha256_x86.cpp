// SHA-256 with the x86 SHA extensions (Intel SDM, SHA256RNDS2, SHA256MSG1, SHA256MSG2); see sha256_x86.h.
#include "bindings/cli/sha256_x86.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace sl::cli::sha256_x86 {

bool usable() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    return (b & (1U << 29)) != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

[[gnu::target("sha,sse4.1,ssse3")]] void compress(std::array<std::uint32_t, 8>& state,
                                                  const std::array<std::uint32_t, 64>& rounds,
                                                  const std::byte* blocks, std::size_t count) {
    auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);

    // The instructions want the state as ABEF and CDGH.
    __m128i dcba = _mm_shuffle_epi32(load(&state[0]), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(load(&state[4]), 0x1b);
    __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, dcba, 0xf0);

    for (; count > 0; --count, blocks += 64) {
        const __m128i abef_before = abef;
        const __m128i cdgh_before = cdgh;
        __m128i w[4];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {  // four rounds each
            if (i < 4) {
                w[i] = _mm_shuffle_epi8(load(blocks + 16 * i), big_endian);
            } else {
                __m128i last = w[(i + 3) % 4];
                __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]),
                                            _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
                w[i % 4] = _mm_sha256msg2_epu32(sum, last);
            }
            __m128i keyed = _mm_add_epi32(w[i % 4], load(&rounds[static_cast<std::size_t>(4 * i)]));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }

    __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace sl::cli::sha256_x86

#else

namespace sl::cli::sha256_x86 {

bool usable() {
    return false;
}

void compress(std::array<std::uint32_t, 8>&, const std::array<std::uint32_t, 64>&, const std::byte*,
              std::size_t) {}

}  // namespace sl::cli::sha256_x86

#endif
