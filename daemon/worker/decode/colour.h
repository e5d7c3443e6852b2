// Colour arithmetic that must give the bytes Pillow gives, on whole rows.
//
// Called by the decoders of this folder. Pure; any thread. `out` may be `in`: every function writes at or
// behind what it has read. Sources: Pillow's Convert.c (CMYK, grey) for the formulas.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sl {

// Cyan, magenta, yellow, black to RGB as Pillow's convert("RGB"): (255 - k) minus the ink's share of it.
void cmyk_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::size_t pixels);

// The same for inks stored inverted, as Adobe writes them into JPEG.
void inverted_cmyk_to_rgb(const std::uint8_t* in, std::uint8_t* out, std::size_t pixels);

// ITU-R 601-2 luma in 16-bit fixed point, as Pillow's convert("L").
void rgb_to_grey(const std::uint8_t* in, std::uint8_t* out, std::size_t pixels);

// Drops what follows the first `out_channels` of each pixel (alpha).
void take_channels(const std::uint8_t* in, std::size_t in_channels, std::uint8_t* out,
                   std::size_t out_channels, std::size_t pixels);

// One value to three equal ones. Not in place.
void grey_to_rgb(const std::uint8_t* in, std::size_t in_channels, std::uint8_t* out, std::size_t pixels);

// 16 bits to 8: round(v / 257), so that 0 stays 0 and 65535 becomes 255.
void narrow_to_8(const std::uint16_t* in, std::uint8_t* out, std::size_t values);

}  // namespace sl
