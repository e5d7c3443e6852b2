// Row loops of colour.h.
#include "daemon/worker/decode/colour.h"

#include <algorithm>
#include <cstring>

namespace sl {
namespace {

// a * b / 255, rounded, for bytes.
inline int scale_255(int a, int b) {
    const int product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

template <int kInvert>
void inks_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::size_t pixels) {
    for (std::size_t i = 0; i < pixels; ++i, in += 4, out += 3) {
        const int white = 255 - (in[3] ^ kInvert);
        const int r = white - scale_255(in[0] ^ kInvert, white);
        const int g = white - scale_255(in[1] ^ kInvert, white);
        const int b = white - scale_255(in[2] ^ kInvert, white);
        out[0] = static_cast<std::uint8_t>(std::max(r, 0));
        out[1] = static_cast<std::uint8_t>(std::max(g, 0));
        out[2] = static_cast<std::uint8_t>(std::max(b, 0));
    }
}

}  // namespace

void cmyk_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::size_t pixels) {
    inks_to_rgb<0>(in, out, pixels);
}

void inverted_cmyk_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::size_t pixels) {
    inks_to_rgb<255>(in, out, pixels);
}

void rgb_to_grey(const std::uint8_t* in, std::uint8_t* out, std::size_t pixels) {
    for (std::size_t i = 0; i < pixels; ++i, in += 3) {
        out[i] = static_cast<std::uint8_t>((in[0] * 19595 + in[1] * 38470 + in[2] * 7471 + 0x8000) >> 16);
    }
}

void take_channels(const std::uint8_t* in, std::size_t in_channels, std::uint8_t* out,
                   std::size_t out_channels, std::size_t pixels) {
    if (in_channels == out_channels) {
        if (in != out) std::memcpy(out, in, pixels * out_channels);
        return;
    }
    for (std::size_t i = 0; i < pixels; ++i, in += in_channels, out += out_channels) {
        for (std::size_t c = 0; c < out_channels; ++c)
            out[c] = in[c];
    }
}

void grey_to_rgb(const std::uint8_t* in, std::size_t in_channels, std::uint8_t* out, std::size_t pixels) {
    for (std::size_t i = 0; i < pixels; ++i, in += in_channels, out += 3)
        out[0] = out[1] = out[2] = in[0];
}

void narrow_to_8(const std::uint16_t* in, std::uint8_t* out, std::size_t values) {
    for (std::size_t i = 0; i < values; ++i) {
        out[i] = static_cast<std::uint8_t>((in[i] * 255U + 32895U) >> 16);  // exact for all 65,536 values
    }
}

}  // namespace sl
