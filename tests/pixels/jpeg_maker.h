// Makes JPEG files in memory, of every sampling and coding that the decoder must treat alike.
//
// For the tests of this folder. The picture is seeded noise over gradients with hard colour edges, so that
// any error of position or chroma shows. Ends the program if libjpeg refuses: that is a mistake in the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sl::test {

struct JpegKind {
    std::string name;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    int components = 3;  // 1 grey, 3 YCbCr, 4 CMYK
    int horizontal = 1;  // luma sampling factors; chroma has 1 x 1
    int vertical = 1;
    bool progressive = false;
    bool arithmetic = false;
    bool optimise = false;
    int restart_rows = 0;    // restart interval in block rows
    int restart_blocks = 0;  // or in blocks
    int quality = 90;
};

std::vector<std::byte> make_jpeg(const JpegKind& kind, std::uint64_t seed);

}  // namespace sl::test
