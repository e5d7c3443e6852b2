// The places where formats keep a picture's size; see glance.h. Sources: PNG (RFC 2083), GIF89a, WebP
// container and VP8 (RFC 6386), TIFF 6.0. JPEG, BMP and PNM have readers of their own.
#include "daemon/worker/decode/glance.h"

#include <algorithm>

#include "daemon/worker/decode/bmp.h"
#include "daemon/worker/decode/jpeg_header.h"
#include "daemon/worker/decode/pnm.h"
#include "daemon/worker/decode/sniff.h"

namespace sl {
namespace {

using Bytes = std::span<const std::byte>;
constexpr std::size_t kFarEnough =
    1 << 20;  // behind any thumbnail and profile of a JPEG, any comment of a PNM

using Found = std::optional<ImageInfo>;

// A number of `count` bytes at `at`, which the caller knows to lie inside.
std::uint32_t little(Bytes bytes, std::size_t at, std::size_t count) {
    std::uint32_t value = 0;
    for (std::size_t i = count; i-- > 0;)
        value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
    return value;
}

std::uint32_t big(Bytes bytes, std::size_t at, std::size_t count) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
        value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
    return value;
}

Found sized(ImageFormat format, std::uint32_t width, std::uint32_t height) {
    if (width == 0 || height == 0) return std::nullopt;
    return ImageInfo{.format = format, .width = width, .height = height};
}

Found glance_png(Bytes bytes) {
    if (bytes.size() < 24) return std::nullopt;
    return sized(ImageFormat::kPng, big(bytes, 16, 4), big(bytes, 20, 4));
}

Found glance_gif(Bytes bytes) {
    if (bytes.size() < 10) return std::nullopt;
    return sized(ImageFormat::kGif, little(bytes, 6, 2), little(bytes, 8, 2));
}

Found glance_webp(Bytes bytes) {
    if (bytes.size() < 30) return std::nullopt;
    constexpr ImageFormat kWebp = ImageFormat::kWebp;
    switch (big(bytes, 12, 4)) {
        case 0x56503858:  // VP8X: the canvas
            return sized(kWebp, little(bytes, 24, 3) + 1, little(bytes, 27, 3) + 1);
        case 0x5650384C: {  // VP8L: 14 bits each behind a byte of signature
            const std::uint32_t sides = little(bytes, 21, 4);
            return sized(kWebp, (sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1);
        }
        case 0x56503820:  // VP8: behind the frame tag and start code
            return sized(kWebp, little(bytes, 26, 2) & 0x3FFF, little(bytes, 28, 2) & 0x3FFF);
        default:
            return std::nullopt;
    }
}

// The first directory's ImageWidth and ImageLength, each a short or a long.
Found glance_tiff(Bytes bytes) {
    if (bytes.size() < 8) return std::nullopt;
    const auto number = bytes[0] == std::byte{'I'} ? little : big;
    if (number(bytes, 2, 2) != 42) return std::nullopt;  // BigTIFF
    constexpr std::size_t kEntryBytes = 12;
    const std::size_t directory = number(bytes, 4, 4);
    if (directory + 2 > bytes.size()) return std::nullopt;
    const std::size_t entries = number(bytes, directory, 2);
    std::uint32_t sides[2] = {};
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t at = directory + 2 + i * kEntryBytes;
        if (at + kEntryBytes > bytes.size()) return std::nullopt;
        const std::uint32_t tag = number(bytes, at, 2);
        if (tag > 257) break;  // they are sorted
        if (tag >= 256) sides[tag - 256] = number(bytes, at + 8, number(bytes, at + 2, 2) == 3 ? 2 : 4);
    }
    return sized(ImageFormat::kTiff, sides[0], sides[1]);
}

}  // namespace

std::optional<ImageInfo> glance(std::span<const std::byte> bytes) {
    switch (sniff(bytes).value_or(ImageFormat::kUnknown)) {
        case ImageFormat::kJpeg: {
            const auto header = read_jpeg_header(bytes.first(std::min(bytes.size(), kFarEnough)));
            return header ? Found(*header) : std::nullopt;
        }
        case ImageFormat::kBmp: {
            const auto header = read_bmp_header(bytes);
            return header ? Found(header->info) : std::nullopt;
        }
        case ImageFormat::kPnm: {
            const auto header = read_pnm_header(bytes.first(std::min(bytes.size(), kFarEnough)));
            return header ? Found(header->info) : std::nullopt;
        }
        case ImageFormat::kPng:
            return glance_png(bytes);
        case ImageFormat::kGif:
            return glance_gif(bytes);
        case ImageFormat::kWebp:
            return glance_webp(bytes);
        case ImageFormat::kTiff:
            return glance_tiff(bytes);
        default:
            return std::nullopt;
    }
}

}  // namespace sl
