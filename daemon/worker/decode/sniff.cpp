// Signatures of the formats that are told apart; see sniff.h.
#include "daemon/worker/decode/sniff.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace sl {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kShownBytes = 8;

struct Signature {
    std::string_view start;
    ImageFormat format;
};

constexpr Signature kSignatures[] = {
    {"\xFF\xD8\xFF"sv, ImageFormat::kJpeg},
    {"\x89PNG\r\n\x1A\n"sv, ImageFormat::kPng},
    {"GIF87a"sv, ImageFormat::kGif},
    {"GIF89a"sv, ImageFormat::kGif},
    {"II*\0"sv, ImageFormat::kTiff},
    {"MM\0*"sv, ImageFormat::kTiff},
    {"II+\0"sv, ImageFormat::kTiff},  // BigTIFF
    {"MM\0+"sv, ImageFormat::kTiff},
    {"BM"sv, ImageFormat::kBmp},
    {"\0\0\0\x0CjP  \r\n\x87\n"sv, ImageFormat::kJpeg2000},
    {"\xFF\x4F\xFF\x51"sv, ImageFormat::kJpeg2000},
    {"\xFF\x0A"sv, ImageFormat::kJpegXl},
    {"\0\0\0\x0CJXL \r\n\x87\n"sv, ImageFormat::kJpegXl},
};

constexpr std::string_view kHeicBrands[] = {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"};
constexpr std::string_view kAvifBrands[] = {"avif", "avis"};

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ISO base media files: size, "ftyp", major brand, minor version, compatible brands. The generic brand mif1
// does not say which codec, so an AVIF brand anywhere in the box outweighs it.
ImageFormat sniff_ftyp(std::string_view text) {
    if (text.size() < 12 || text.substr(4, 4) != "ftyp") return ImageFormat::kUnknown;
    const auto byte = [&](std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(text[at]));
    };
    const std::size_t box = byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
    const std::size_t end = std::min({text.size(), box, std::size_t{256}});
    ImageFormat found = ImageFormat::kUnknown;
    for (std::size_t at = 8; at + 4 <= std::max(end, std::size_t{12}); at += 4) {
        const std::string_view brand = text.substr(at, 4);
        if (std::ranges::find(kAvifBrands, brand) != std::end(kAvifBrands)) return ImageFormat::kAvif;
        if (std::ranges::find(kHeicBrands, brand) != std::end(kHeicBrands)) found = ImageFormat::kHeic;
    }
    return found;
}

// PBM, PGM and PPM: 'P', a digit, white space or a comment. Two letters alone would claim any text. PFM: 'P',
// 'f' or 'F', white space and a digit; "PF " begins sentences.
bool is_pnm(std::string_view text) {
    if (text.size() < 3 || text[0] != 'P') return false;
    const bool space = " \t\n\v\f\r"sv.find(text[2]) != std::string_view::npos;
    if (text[1] >= '1' && text[1] <= '6') return space || text[2] == '#';
    const bool floats = text[1] == 'f' || text[1] == 'F';
    return floats && space && text.size() > 3 && text[3] >= '0' && text[3] <= '9';
}

std::string hex(std::string_view text) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const char c : text) {
        if (!out.empty()) out += ' ';
        out += kDigits[static_cast<unsigned char>(c) >> 4];
        out += kDigits[static_cast<unsigned char>(c) & 15];
    }
    return out;
}

}  // namespace

std::string_view to_string(ImageFormat format) {
    switch (format) {
        case ImageFormat::kJpeg:
            return "jpeg";
        case ImageFormat::kPng:
            return "png";
        case ImageFormat::kGif:
            return "gif";
        case ImageFormat::kWebp:
            return "webp";
        case ImageFormat::kTiff:
            return "tiff";
        case ImageFormat::kBmp:
            return "bmp";
        case ImageFormat::kHeic:
            return "heic";
        case ImageFormat::kAvif:
            return "avif";
        case ImageFormat::kPnm:
            return "pnm";
        case ImageFormat::kJpeg2000:
            return "jpeg2000";
        case ImageFormat::kJpegXl:
            return "jpegxl";
        case ImageFormat::kUnknown:
            break;
    }
    return "unknown";
}

SampleResult<ImageFormat> sniff(std::span<const std::byte> bytes) {
    if (bytes.empty()) return fail_sample(SampleErrorKind::kEmpty, "the file has no bytes", 0);
    const std::string_view text = text_of(bytes);
    for (const Signature& signature : kSignatures) {
        if (text.starts_with(signature.start)) return signature.format;
    }
    if (text.size() >= 12 && text.starts_with("RIFF") && text.substr(8, 4) == "WEBP")
        return ImageFormat::kWebp;
    if (is_pnm(text)) return ImageFormat::kPnm;
    const ImageFormat ftyp = sniff_ftyp(text);
    if (ftyp != ImageFormat::kUnknown) return ftyp;
    return fail_sample(SampleErrorKind::kUnsupportedFormat,
                       "no known picture format starts with " + hex(text.substr(0, kShownBytes)), 0);
}

}  // namespace sl
