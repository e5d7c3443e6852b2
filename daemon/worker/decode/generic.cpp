// libvips behind generic.h.
#include "daemon/worker/decode/generic.h"

#include <vips/vips.h>

#include <algorithm>
#include <cstdio>

#include <jpeglib.h>

#include <string>
#include <utility>

#include "daemon/worker/decode/colour.h"

namespace sl {
namespace {

constexpr std::uint32_t kRowsPerStrip = 64;

void ignore_log(const gchar*, GLogLevelFlags, const gchar*, gpointer) {}

// libvips collects messages in one buffer, a line each; the first is the nearest to the cause.
std::string take_message() {
    std::string text = vips_error_buffer();
    vips_error_clear();
    text.resize(std::min(text.find('\n'), text.size()));
    while (!text.empty() && (text.back() == ' ' || text.back() == '.'))
        text.pop_back();
    return text.empty() ? "no reason given" : text;
}

// libvips has no error codes. A file that merely stops says so in words that all its loaders share in part.
SampleErrorKind kind_of(std::string_view message) {
    for (const std::string_view word :
         {"end of file", "EOF", "truncat", "out of data", "too short", "not enough"}) {
        if (message.find(word) != std::string_view::npos) return SampleErrorKind::kTruncated;
    }
    return SampleErrorKind::kCorrupt;
}

// Whether a PNG stops before its end chunk, which libpng tells in the same words as damage inside. A chunk is
// a length (big-endian), a name, so many bytes and a checksum.
bool png_stops_early(std::span<const std::byte> bytes) {
    constexpr std::size_t kSignature = 8;
    constexpr std::size_t kAround = 12;
    std::size_t at = kSignature;
    while (at + kAround <= bytes.size()) {
        std::size_t length = 0;
        for (std::size_t i = 0; i < 4; ++i)
            length = length << 8 | std::to_integer<std::size_t>(bytes[at + i]);
        const std::string_view name(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
        if (length > bytes.size() - at - kAround) return true;
        if (name == "IEND") return false;
        at += kAround + length;
    }
    return true;
}

std::unexpected<SampleError> failure(ImageFormat format, std::span<const std::byte> bytes) {
    const std::string text = take_message();
    const bool stops = format == ImageFormat::kPng && png_stops_early(bytes);
    const SampleErrorKind kind = stops ? SampleErrorKind::kTruncated : kind_of(text);
    std::string message = std::string(to_string(format)) + ": " + text;
    if (kind == SampleErrorKind::kTruncated)
        message += " (" + std::to_string(bytes.size()) + " bytes present)";
    return fail_sample(kind, std::move(message));
}

const char* loader_for(ImageFormat format) {
    switch (format) {
        case ImageFormat::kPng:
            return "pngload_buffer";
        case ImageFormat::kGif:
            return "gifload_buffer";
        case ImageFormat::kWebp:
            return "webpload_buffer";
        case ImageFormat::kTiff:
            return "tiffload_buffer";
        case ImageFormat::kHeic:
        case ImageFormat::kAvif:
            return "heifload_buffer";
        default:
            return nullptr;
    }
}

bool is_linked(const char* loader) {
    return loader != nullptr && vips_type_find("VipsForeignLoad", loader) != 0;
}

// Opens the header; pixels come later, row by row. nullptr on failure.
VipsImage* load(std::span<const std::byte> bytes, ImageFormat format) {
    VipsImage* image = nullptr;
    auto* data = const_cast<std::byte*>(bytes.data());
    const std::size_t size = bytes.size();
    constexpr VipsAccess kTopDown = VIPS_ACCESS_SEQUENTIAL;
    constexpr VipsFailOn kStrict = VIPS_FAIL_ON_ERROR;
    switch (format) {
        case ImageFormat::kPng:
            vips_pngload_buffer(data, size, &image, "access", kTopDown, "fail_on", kStrict, nullptr);
            break;
        case ImageFormat::kGif:
            vips_gifload_buffer(data, size, &image, "access", kTopDown, "fail_on", kStrict, nullptr);
            break;
        case ImageFormat::kWebp:
            vips_webpload_buffer(data, size, &image, "access", kTopDown, "fail_on", kStrict, nullptr);
            break;
        case ImageFormat::kTiff:
            vips_tiffload_buffer(data, size, &image, "access", kTopDown, "fail_on", kStrict, nullptr);
            break;
        case ImageFormat::kHeic:
        case ImageFormat::kAvif:
            vips_heifload_buffer(data, size, &image, "access", kTopDown, "fail_on", kStrict, nullptr);
            break;
        default:
            break;
    }
    return image;
}

SampleResult<void> check_pixel_type(const VipsImage* image) {
    const VipsBandFormat type = vips_image_get_format(image);
    if (type != VIPS_FORMAT_UCHAR && type != VIPS_FORMAT_USHORT) {
        return fail_sample(SampleErrorKind::kUnsupportedDtype,
                           std::string("pixels of type ") + vips_enum_nick(VIPS_TYPE_BAND_FORMAT, type) +
                               " cannot become uint8 without a scale");
    }
    const VipsInterpretation colour = vips_image_get_interpretation(image);
    if (colour == VIPS_INTERPRETATION_LAB || colour == VIPS_INTERPRETATION_LABS ||
        vips_image_get_bands(image) > 5) {
        return fail_sample(SampleErrorKind::kUnsupportedCoding,
                           std::to_string(vips_image_get_bands(image)) + " channels of colour space " +
                               vips_enum_nick(VIPS_TYPE_INTERPRETATION, colour) + " are not decoded");
    }
    return {};
}

// How a row of libvips' bands becomes grey or RGB.
struct RowFormat {
    std::size_t bands = 0;
    bool wide = false;  // 16 bits
    bool inks = false;  // CMYK
    std::uint32_t channels = 3;
};

struct RowBuffers {
    std::uint8_t* narrow = nullptr;
    std::uint8_t* colour = nullptr;
};

void convert_row(const std::uint8_t* in, std::size_t first, std::size_t pixels, const RowFormat& format,
                 const RowBuffers& buffers, std::uint8_t* out) {
    if (format.wide) {
        const auto* values = reinterpret_cast<const std::uint16_t*>(in) + first * format.bands;
        narrow_to_8(values, buffers.narrow, pixels * format.bands);
        in = buffers.narrow;
    } else {
        in += first * format.bands;
    }
    const bool grey = format.bands <= 2;
    if (grey && format.channels == 1) return take_channels(in, format.bands, out, 1, pixels);
    if (grey) return grey_to_rgb(in, format.bands, out, pixels);
    std::uint8_t* rgb = format.channels == 1 ? buffers.colour : out;
    if (format.inks) {
        take_channels(in, format.bands, buffers.colour, 4, pixels);
        cmyk_to_rgb(buffers.colour, rgb, pixels);
    } else {
        take_channels(in, format.bands, rgb, 3, pixels);
    }
    if (format.channels == 1) rgb_to_grey(rgb, out, pixels);
}

}  // namespace

Result<void> start_codecs() {
    static const bool started = [] {
        g_log_set_handler("VIPS", G_LOG_LEVEL_MASK, ignore_log, nullptr);  // a library does not print
        if (vips_init("speedyloader-worker") != 0) return false;
        vips_block_untrusted_set(TRUE);
        vips_concurrency_set(1);
        vips_cache_set_max(0);  // else a replaced file comes back as its old picture
        vips_cache_set_max_mem(0);
        vips_cache_set_max_files(0);
        return true;
    }();
    if (!started) return fail(Status::kUnsupported, "libvips does not start: " + take_message());
    return {};
}

std::string describe_codecs() {
    std::string text = "jpeg (libjpeg API " + std::to_string(JPEG_LIB_VERSION) + ", libjpeg-turbo " +
                       std::to_string(LIBJPEG_TURBO_VERSION_NUMBER / 1000000) + "." +
                       std::to_string(LIBJPEG_TURBO_VERSION_NUMBER / 1000 % 1000) + "." +
                       std::to_string(LIBJPEG_TURBO_VERSION_NUMBER % 1000) + "), bmp, pnm";
    for (ImageFormat format : {ImageFormat::kPng, ImageFormat::kGif, ImageFormat::kWebp, ImageFormat::kTiff,
                               ImageFormat::kHeic, ImageFormat::kAvif}) {
        if (!is_linked(loader_for(format))) continue;
        text += ", ";
        text += to_string(format);
    }
    return text + " (libvips " + vips_version_string() + ")";
}

void GenericDecoder::CloseImage::operator()(_VipsImage* image) const {
    g_object_unref(image);
}

GenericDecoder::GenericDecoder() = default;
GenericDecoder::~GenericDecoder() = default;

void GenericDecoder::close() {
    image_.reset();
}

SampleResult<ImageInfo> GenericDecoder::open(std::span<const std::byte> bytes, ImageFormat format) {
    close();
    format_ = format;
    bytes_ = bytes;
    if (!is_linked(loader_for(format))) {
        return fail_sample(SampleErrorKind::kUnsupportedFormat,
                           std::string(to_string(format)) + " is not decoded by this build");
    }
    vips_error_clear();
    image_.reset(load(bytes, format));
    if (!image_) return failure(format, bytes_);
    if (const auto known = check_pixel_type(image_.get()); !known) {
        close();
        return std::unexpected(known.error());
    }
    return ImageInfo{.format = format,
                     .width = static_cast<std::uint32_t>(vips_image_get_width(image_.get())),
                     .height = static_cast<std::uint32_t>(vips_image_get_height(image_.get())),
                     .components = static_cast<std::uint32_t>(vips_image_get_bands(image_.get()))};
}

SampleResult<Region> GenericDecoder::decode(const Box& box, std::uint32_t channels) {
    VipsImage* image = image_.get();
    const auto width = static_cast<std::uint32_t>(vips_image_get_width(image));
    const auto height = static_cast<std::uint32_t>(vips_image_get_height(image));
    const RowFormat format{.bands = static_cast<std::size_t>(vips_image_get_bands(image)),
                           .wide = vips_image_get_format(image) == VIPS_FORMAT_USHORT,
                           .inks = vips_image_get_interpretation(image) == VIPS_INTERPRETATION_CMYK,
                           .channels = channels};
    const std::size_t stride = std::size_t{box.width} * channels;
    std::uint8_t* rows = rows_.reserve(stride * box.height);
    const RowBuffers buffers{narrow_.reserve(box.width * format.bands),
                             colour_.reserve(box.width * std::size_t{4})};
    if (rows == nullptr || buffers.narrow == nullptr || buffers.colour == nullptr) {
        return fail_sample(SampleErrorKind::kByteBudget, "no memory for the picture's rows");
    }

    vips_error_clear();
    const std::unique_ptr<VipsRegion, decltype(&g_object_unref)> strip(vips_region_new(image),
                                                                       g_object_unref);
    for (std::uint32_t top = 0; top < height; top += kRowsPerStrip) {
        const VipsRect rect{0, static_cast<int>(top), static_cast<int>(width),
                            static_cast<int>(std::min(kRowsPerStrip, height - top))};
        if (!strip || vips_region_prepare(strip.get(), &rect) != 0) return failure(format_, bytes_);
        const std::uint32_t from = std::max(top, box.y);
        const std::uint32_t until = std::min(top + kRowsPerStrip, box.y + box.height);
        for (std::uint32_t y = from; y < until; ++y) {
            const VipsPel* row = VIPS_REGION_ADDR(strip.get(), 0, static_cast<int>(y));
            convert_row(row, box.x, box.width, format, buffers, rows + stride * (y - box.y));
        }
    }
    return Region{
        .pixels = rows, .stride = stride, .width = box.width, .height = box.height, .channels = channels};
}

}  // namespace sl
