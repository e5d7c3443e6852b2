// A filter that resizes: cases on standard input, resized pixels on standard output.
//
// Started by test_pillow_resize.py, which compares the pixels with Pillow's. A case is six 32-bit
// little-endian numbers (width, height, channels, output width, output height, flip) and the picture's rows
// without padding; the answer is the output's bytes. Ends at end of input; ends with status 1 at a case that
// cannot be.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "daemon/worker/transform/resample.h"

int main() {
    sl::Resampler resampler;
    std::array<std::uint32_t, 6> head;
    std::vector<std::uint8_t> picture;
    std::vector<std::uint8_t> out;
    while (std::fread(head.data(), sizeof(head), 1, stdin) == 1) {
        const auto [width, height, channels, out_width, out_height, flip] = head;
        // Sized exactly, so that a sanitizer sees a read or write one byte outside.
        picture = std::vector<std::uint8_t>(std::size_t{width} * height * channels);
        out = std::vector<std::uint8_t>(std::size_t{out_width} * out_height * (channels == 1 ? 1 : 3));
        if (std::fread(picture.data(), 1, picture.size(), stdin) != picture.size()) return 1;
        const sl::ImageView view{picture.data(), width, height, channels, std::size_t{width} * channels};
        const auto result = resampler.bilinear(view, out_width, out_height, flip != 0, out.data());
        if (!result) {
            std::fprintf(stderr, "%s\n", result.error().message.c_str());
            return 1;
        }
        if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size()) return 1;
    }
    return 0;
}
