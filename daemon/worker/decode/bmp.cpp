// Header and rows of bmp.h. Layout: Microsoft's BITMAPFILEHEADER followed by BITMAPCOREHEADER (12 bytes) or
// BITMAPINFOHEADER (40 bytes and longer versions); all numbers little-endian.
#include "daemon/worker/decode/bmp.h"

#include <algorithm>
#include <bit>
#include <string>

namespace sl {
namespace {

constexpr std::size_t kFileHeaderBytes = 14;
constexpr std::uint32_t kCoreHeaderBytes = 12;
constexpr std::uint32_t kInfoHeaderBytes = 40;
constexpr std::uint32_t kUncompressed = 0;
constexpr std::uint32_t kBitFields = 3;
constexpr std::uint32_t kAlphaBitFields = 6;

std::uint32_t little(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
        value |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
    return value;
}

std::unexpected<SampleError> ends_early(std::size_t size) {
    return fail_sample(SampleErrorKind::kTruncated,
                       "the BMP data end after " + std::to_string(size) + " bytes",
                       static_cast<std::int64_t>(size));
}

std::unexpected<SampleError> malformed(const char* what) {
    return fail_sample(SampleErrorKind::kCorrupt, std::string("BMP: ") + what);
}

// Fields that differ between the two header versions.
struct Fields {
    std::uint32_t header_bytes = 0;
    std::int64_t width = 0;
    std::int64_t height = 0;
    std::uint32_t bits = 0;
    std::uint32_t compression = kUncompressed;
    std::uint32_t colours = 0;
    std::size_t palette_entry_bytes = 4;
};

SampleResult<Fields> read_fields(std::span<const std::byte> bytes) {
    if (bytes.size() < kFileHeaderBytes + 4) return ends_early(bytes.size());
    Fields fields{.header_bytes = little(bytes, kFileHeaderBytes, 4)};
    if (fields.header_bytes != kCoreHeaderBytes && fields.header_bytes < kInfoHeaderBytes) {
        return fail_sample(SampleErrorKind::kUnsupportedCoding,
                           "BMP header of " + std::to_string(fields.header_bytes) + " bytes is not decoded");
    }
    if (kFileHeaderBytes + std::uint64_t{fields.header_bytes} > bytes.size()) return ends_early(bytes.size());
    if (fields.header_bytes == kCoreHeaderBytes) {
        fields.width = little(bytes, 18, 2);
        fields.height = little(bytes, 20, 2);
        fields.bits = little(bytes, 24, 2);
        fields.palette_entry_bytes = 3;
        return fields;
    }
    fields.width = static_cast<std::int32_t>(little(bytes, 18, 4));
    fields.height = static_cast<std::int32_t>(little(bytes, 22, 4));
    fields.bits = little(bytes, 28, 2);
    fields.compression = little(bytes, 30, 4);
    fields.colours = little(bytes, 46, 4);
    return fields;
}

SampleResult<void> read_palette(std::span<const std::byte> bytes, const Fields& fields, BmpHeader& header) {
    const std::uint32_t most = 1U << fields.bits;
    const std::uint32_t count = fields.colours == 0 ? most : std::min(fields.colours, most);
    std::size_t at = kFileHeaderBytes + fields.header_bytes;
    if (at + count * fields.palette_entry_bytes > bytes.size()) return ends_early(bytes.size());
    for (std::uint32_t i = 0; i < count; ++i, at += fields.palette_entry_bytes) {
        for (std::size_t c = 0; c < 3; ++c) {
            header.palette[i][c] = std::to_integer<std::uint8_t>(bytes[at + 2 - c]);
        }
    }
    return {};
}

SampleResult<void> read_masks(std::span<const std::byte> bytes, const Fields& fields, BmpHeader& header) {
    if (fields.compression == kUncompressed) {
        header.masks = fields.bits == 16 ? std::array<std::uint32_t, 3>{0x7C00, 0x03E0, 0x001F}
                                         : std::array<std::uint32_t, 3>{0xFF0000, 0x00FF00, 0x0000FF};
        return {};
    }
    constexpr std::size_t kMasksAt = kFileHeaderBytes + kInfoHeaderBytes;  // in or right behind the header
    if (kMasksAt + 12 > bytes.size()) return ends_early(bytes.size());
    for (std::size_t c = 0; c < 3; ++c) {
        header.masks[c] = little(bytes, kMasksAt + 4 * c, 4);
        if (header.masks[c] == 0) return malformed("an empty colour mask");
    }
    return {};
}

std::uint8_t masked(std::uint32_t pixel, std::uint32_t mask) {
    const int shift = std::countr_zero(mask);
    const std::uint64_t most = mask >> shift;
    return static_cast<std::uint8_t>(((pixel & mask) >> shift) * std::uint64_t{255} / most);
}

void decode_row(std::span<const std::byte> row, const BmpHeader& header, const Box& box, std::uint8_t* out) {
    for (std::uint32_t x = box.x; x < box.x + box.width; ++x, out += 3) {
        if (header.bits == 24) {
            for (std::size_t c = 0; c < 3; ++c) {
                out[c] = std::to_integer<std::uint8_t>(row[std::size_t{x} * 3 + 2 - c]);
            }
        } else if (header.bits > 8) {
            const std::size_t pixel_bytes = header.bits / 8;
            const std::uint32_t pixel = little(row, x * pixel_bytes, pixel_bytes);
            for (std::size_t c = 0; c < 3; ++c)
                out[c] = masked(pixel, header.masks[c]);
        } else {
            const std::size_t bit = std::size_t{x} * header.bits;
            const auto stored = std::to_integer<std::uint32_t>(row[bit / 8]);
            const std::uint32_t index = (stored >> (8 - header.bits - bit % 8)) & ((1U << header.bits) - 1);
            std::ranges::copy(header.palette[index], out);
        }
    }
}

}  // namespace

SampleResult<BmpHeader> read_bmp_header(std::span<const std::byte> bytes) {
    const auto fields = read_fields(bytes);
    if (!fields) return std::unexpected(fields.error());
    BmpHeader header;
    header.bits = fields->bits;
    const bool paletted = header.bits == 1 || header.bits == 4 || header.bits == 8;
    const bool masks = fields->compression == kBitFields || fields->compression == kAlphaBitFields;
    const bool direct = header.bits == 16 || header.bits == 24 || header.bits == 32;
    if (!(paletted || direct) || (fields->compression != kUncompressed && !masks) ||
        (masks && header.bits != 16 && header.bits != 32)) {
        return fail_sample(SampleErrorKind::kUnsupportedCoding,
                           "BMP with " + std::to_string(header.bits) + " bits and compression " +
                               std::to_string(fields->compression) + " is not decoded");
    }
    header.top_down = fields->height < 0;
    const std::int64_t height = header.top_down ? -fields->height : fields->height;
    if (fields->width <= 0 || height == 0) return malformed("a side of 0 or less");
    header.info = {.format = ImageFormat::kBmp,
                   .width = static_cast<std::uint32_t>(fields->width),
                   .height = static_cast<std::uint32_t>(height),
                   .components = 3};
    header.pixels_at = little(bytes, 10, 4);
    header.row_bytes = (std::size_t{header.info.width} * header.bits + 31) / 32 * 4;
    const auto colours = paletted ? read_palette(bytes, *fields, header) : read_masks(bytes, *fields, header);
    if (!colours) return std::unexpected(colours.error());
    return header;
}

SampleResult<void> decode_bmp(std::span<const std::byte> bytes, const BmpHeader& header, const Box& box,
                              std::uint8_t* out) {
    if (header.pixels_at > bytes.size() ||
        header.info.height > (bytes.size() - header.pixels_at) / header.row_bytes) {
        return ends_early(bytes.size());
    }
    for (std::uint32_t y = box.y; y < box.y + box.height; ++y, out += std::size_t{box.width} * 3) {
        const std::uint32_t stored = header.top_down ? y : header.info.height - 1 - y;
        decode_row(bytes.subspan(header.pixels_at + header.row_bytes * stored, header.row_bytes), header, box,
                   out);
    }
    return {};
}

}  // namespace sl
