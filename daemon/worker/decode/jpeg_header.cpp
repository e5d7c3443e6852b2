// The marker walk of jpeg_header.h.
#include "daemon/worker/decode/jpeg_header.h"

#include <algorithm>
#include <optional>
#include <string>

namespace sl {
namespace {

constexpr std::uint8_t kStartOfScan = 0xDA;
constexpr std::uint8_t kEndOfImage = 0xD9;
constexpr std::uint8_t kHierarchical = 0xDE;
constexpr std::uint8_t kJpegLsFrame = 0xF7;
constexpr std::size_t kFrameHeaderBytes = 8;  // length, precision, height, width, components

std::uint8_t at(std::span<const std::byte> bytes, std::size_t index) {
    return std::to_integer<std::uint8_t>(bytes[index]);
}

std::uint32_t big16(std::span<const std::byte> bytes, std::size_t index) {
    return std::uint32_t{at(bytes, index)} << 8 | at(bytes, index + 1);
}

bool stands_alone(std::uint8_t marker) {
    return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
}

// C0 to CF, except DHT (C4), JPG (C8) and DAC (CC); JPEG-LS has its own.
bool is_frame(std::uint8_t marker) {
    if (marker == kJpegLsFrame) return true;
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Baseline, extended and progressive, Huffman (C0 to C2) or arithmetic (C9, CA).
bool is_supported_frame(std::uint8_t marker) {
    return marker <= 0xC2 || marker == 0xC9 || marker == 0xCA;
}

std::string hex_byte(std::uint8_t value) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    return {kDigits[value >> 4], kDigits[value & 15]};
}

std::unexpected<SampleError> ends_early(std::size_t size) {
    return fail_sample(SampleErrorKind::kTruncated,
                       "the JPEG header ends after " + std::to_string(size) + " bytes",
                       static_cast<std::int64_t>(size));
}

SampleResult<ImageInfo> parse_frame(std::span<const std::byte> bytes, std::size_t body, std::uint8_t marker) {
    if (body + kFrameHeaderBytes > bytes.size()) return ends_early(bytes.size());
    const std::uint8_t precision = at(bytes, body + 2);
    ImageInfo info{.format = ImageFormat::kJpeg,
                   .width = big16(bytes, body + 5),
                   .height = big16(bytes, body + 3),
                   .components = at(bytes, body + 7),
                   .progressive = marker == 0xC2 || marker == 0xCA};
    const std::string frame =
        "JPEG frame FF" + hex_byte(marker) + " with " + std::to_string(precision) + " bits per sample";
    const auto offset = static_cast<std::int64_t>(body);
    const auto unsupported = [&](std::string_view why) {
        return fail_sample(SampleErrorKind::kUnsupportedCoding, frame + std::string(why), offset);
    };
    if (!is_supported_frame(marker)) return unsupported(" is not a coding this build decodes");
    if (precision != 8) return unsupported(" is not decoded, only 8 are");
    if (info.height == 0) return unsupported(" and height 0 (a DNL marker) is not decoded");
    if (info.width == 0) return fail_sample(SampleErrorKind::kCorrupt, frame + " has width 0", offset);
    if (info.components != 1 && info.components != 3 && info.components != 4) {
        return unsupported(" has " + std::to_string(info.components) + " components");
    }
    return info;
}

}  // namespace

SampleResult<ImageInfo> read_jpeg_header(std::span<const std::byte> bytes) {
    std::size_t position = 2;  // after the start marker, which sniff() saw
    while (true) {
        // Bytes between segments are skipped, as libjpeg skips them (and warns).
        while (position < bytes.size() && at(bytes, position) != 0xFF)
            ++position;
        while (position < bytes.size() && at(bytes, position) == 0xFF)
            ++position;
        if (position >= bytes.size()) return ends_early(bytes.size());
        const std::uint8_t marker = at(bytes, position++);
        if (marker == 0 || stands_alone(marker)) continue;
        const auto offset = static_cast<std::int64_t>(position);
        if (marker == kStartOfScan || marker == kEndOfImage) {
            return fail_sample(SampleErrorKind::kCorrupt, "the JPEG data start without a frame header",
                               offset);
        }
        if (marker == kHierarchical) {
            return fail_sample(SampleErrorKind::kUnsupportedCoding,
                               "hierarchical JPEG (marker FFDE) is not decoded", offset);
        }
        if (is_frame(marker)) return parse_frame(bytes, position, marker);
        if (position + 2 > bytes.size()) return ends_early(bytes.size());
        const std::uint32_t length = big16(bytes, position);
        if (length < 2) {
            return fail_sample(SampleErrorKind::kCorrupt,
                               "JPEG segment FF" + hex_byte(marker) + " has an impossible length", offset);
        }
        position += length;
    }
}

bool has_end_marker(std::span<const std::byte> bytes, std::size_t from) {
    constexpr std::size_t kWindow = 64 * 1024;
    const std::size_t floor = std::max(from, bytes.size() > kWindow ? bytes.size() - kWindow : 0);
    for (std::size_t i = bytes.size(); i >= floor + 2; --i) {
        if (at(bytes, i - 1) == kEndOfImage && at(bytes, i - 2) == 0xFF) return true;
    }
    return false;
}

}  // namespace sl
