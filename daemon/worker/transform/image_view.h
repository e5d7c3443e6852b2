// A picture in memory that somebody else owns: what the decoder hands to the transforms.
//
// Plain data, read by every transform; no thread safety of its own, and nothing here can fail.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sl {

struct ImageView {
    const std::uint8_t* data = nullptr;  // top left pixel
    std::uint32_t width = 0;             // pixels
    std::uint32_t height = 0;            // rows
    std::uint32_t channels = 0;          // bytes a pixel: 1, 3, or 4 (the fourth is padding)
    std::size_t stride = 0;              // bytes from a row to the next
};

}  // namespace sl
