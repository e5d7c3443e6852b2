// The encoder side of jpeg_maker.h.
#include "tests/pixels/jpeg_maker.h"

#include <cstdio>
#include <cstdlib>
#include <random>

// clang-format off: jpeglib.h uses size_t and FILE without including what defines them
#include <jpeglib.h>
// clang-format on

namespace sl::test {
namespace {

// Smooth gradients, noise of +-24 levels, and 16-pixel squares of saturated colour.
void fill_row(std::vector<JSAMPLE>& row, std::uint32_t y, int components, std::mt19937_64& random) {
    for (std::size_t i = 0; i < row.size(); ++i) {
        const std::size_t x = i / static_cast<std::size_t>(components);
        const std::size_t c = i % static_cast<std::size_t>(components);
        int value = static_cast<int>((x * (c + 1) + y * (3 - c % 3)) / 2 % 256);
        if (((x / 16) ^ (y / 16)) % 5 == c) value = 255 - value;
        value += static_cast<int>(random() % 49) - 24;
        row[i] = static_cast<JSAMPLE>(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

void configure(jpeg_compress_struct& library, const JpegKind& kind) {
    library.image_width = kind.width;
    library.image_height = kind.height;
    library.input_components = kind.components;
    library.in_color_space = kind.components == 1 ? JCS_GRAYSCALE : kind.components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&library);
    jpeg_set_quality(&library, kind.quality, TRUE);
    library.comp_info[0].h_samp_factor = kind.horizontal;
    library.comp_info[0].v_samp_factor = kind.vertical;
    library.arith_code = kind.arithmetic;
    library.optimize_coding = kind.optimise;
    library.restart_in_rows = kind.restart_rows;
    library.restart_interval = static_cast<unsigned>(kind.restart_blocks);
    if (kind.progressive) jpeg_simple_progression(&library);
}

}  // namespace

std::vector<std::byte> make_jpeg(const JpegKind& kind, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    jpeg_compress_struct library{};
    jpeg_error_mgr errors{};
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    unsigned char* data = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&library, &data, &size);
    configure(library, kind);
    jpeg_start_compress(&library, TRUE);
    std::vector<JSAMPLE> row(std::size_t{kind.width} * static_cast<std::size_t>(kind.components));
    for (std::uint32_t y = 0; y < kind.height; ++y) {
        fill_row(row, y, kind.components, random);
        JSAMPROW pointer = row.data();
        jpeg_write_scanlines(&library, &pointer, 1);
    }
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    std::vector<std::byte> file(bytes, bytes + size);
    std::free(data);
    return file;
}

}  // namespace sl::test
