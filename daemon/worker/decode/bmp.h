// Reads uncompressed Windows and OS/2 bitmaps: 1, 4, 8, 16, 24 and 32 bits, palettes and bit masks.
//
// Ours because the generic library reads BMP only through ImageMagick, which opens policy and module files at
// run time: impossible in a worker that has no file system, and far more attack surface than 150 lines.
// Called by Decoder; pure; any thread. Alpha is dropped. Run-length coded files are `unsupported_coding`.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "daemon/worker/decode/image.h"
#include "shm/error.h"

namespace sl {

struct BmpHeader {
    ImageInfo info;
    std::size_t pixels_at = 0;  // offset of the first stored row
    std::size_t row_bytes = 0;  // stored rows are padded to 4 bytes
    bool top_down = false;
    std::uint32_t bits = 0;
    std::array<std::uint32_t, 3> masks{};                    // red, green, blue; 16 and 32 bits only
    std::array<std::array<std::uint8_t, 3>, 256> palette{};  // red, green, blue; up to 8 bits only
};

SampleResult<BmpHeader> read_bmp_header(std::span<const std::byte> bytes);

// The box as packed RGB rows (3 bytes a pixel) into `out`, which holds box.width * box.height * 3 bytes.
// kTruncated if the file is too short for the whole picture, wherever the box lies.
SampleResult<void> decode_bmp(std::span<const std::byte> bytes, const BmpHeader& header, const Box& box,
                              std::uint8_t* out);

}  // namespace sl
