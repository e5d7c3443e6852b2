// Whole JPEG files to packed RGB and back, for the makers of test data only.
//
// Called by make_photos.cpp. Both functions are re-entrant: any number of threads may call them. They print
// nothing; a file that cannot be read, decoded or written gives false and leaves the output unspecified.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sl::makers {

struct RgbImage {
    int width = 0;
    int height = 0;
    std::vector<std::uint8_t> pixels;  // height x width x 3, rows packed
};

enum class Sampling { k420, k444 };

// Any JPEG that libjpeg can turn into RGB (grey is widened).
[[nodiscard]] bool read_jpeg(const std::string& path, RgbImage& image);

// The picture's size alone, from the header.
[[nodiscard]] bool read_jpeg_size(const std::string& path, int& width, int& height);

// With optimised Huffman tables, as cameras and ImageNet have them; baseline or progressive. `bytes` is
// replaced.
[[nodiscard]] bool encode_jpeg(const RgbImage& image, int quality, Sampling sampling, bool progressive,
                               std::vector<std::uint8_t>& bytes);

}  // namespace sl::makers
