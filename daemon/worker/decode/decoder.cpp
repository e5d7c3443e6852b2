// Chooses the decoder by format; see decoder.h.
#include "daemon/worker/decode/decoder.h"

#include <string>

#include "daemon/worker/decode/colour.h"
#include "daemon/worker/decode/jpeg_header.h"
#include "daemon/worker/decode/sniff.h"

namespace sl {

SampleResult<ImageInfo> Decoder::probe(std::span<const std::byte> bytes, std::uint64_t max_pixels) {
    generic_.close();
    info_ = {};
    bytes_ = bytes;
    const auto format = sniff(bytes);
    if (!format) return std::unexpected(format.error());
    const auto info = read_header(*format);
    if (!info) return info;
    const std::uint64_t pixels = std::uint64_t{info->width} * info->height;
    if (pixels > max_pixels) {
        generic_.close();
        return fail_sample(SampleErrorKind::kPixelBudget,
                           "picture of " + std::to_string(info->width) + " x " +
                               std::to_string(info->height) + " (" + std::to_string(pixels) +
                               " pixels) is over max_pixels " + std::to_string(max_pixels));
    }
    info_ = *info;
    return info;
}

SampleResult<ImageInfo> Decoder::read_header(ImageFormat format) {
    if (format == ImageFormat::kJpeg) return read_jpeg_header(bytes_);
    if (format == ImageFormat::kBmp) {
        const auto header = read_bmp_header(bytes_);
        if (!header) return std::unexpected(header.error());
        bmp_ = *header;
        return bmp_.info;
    }
    if (format == ImageFormat::kPnm) {
        const auto header = read_pnm_header(bytes_);
        if (!header) return std::unexpected(header.error());
        pnm_header_ = *header;
        return pnm_header_.info;
    }
    return generic_.open(bytes_, format);
}

SampleResult<Region> Decoder::decode_region(const RegionRequest& request) {
    const Box& box = request.box;
    if (box.width == 0 || box.height == 0 || std::uint64_t{box.x} + box.width > info_.width ||
        std::uint64_t{box.y} + box.height > info_.height) {
        return fail_sample(SampleErrorKind::kShapeMismatch,
                           "the crop box does not lie inside the picture of " + std::to_string(info_.width) +
                               " x " + std::to_string(info_.height));
    }
    switch (info_.format) {
        case ImageFormat::kJpeg:
            return jpeg_.decode(bytes_, info_, request);
        case ImageFormat::kBmp:
            return decode_bmp_region(request);
        case ImageFormat::kPnm:
            return pnm_.decode(bytes_, pnm_header_, request);
        default:
            break;
    }
    auto region = generic_.decode(box, request.channels);
    generic_.close();
    return region;
}

SampleResult<Region> Decoder::decode_bmp_region(const RegionRequest& request) {
    const std::size_t pixels = std::size_t{request.box.width} * request.box.height;
    std::uint8_t* rows = bmp_rows_.reserve(pixels * 3);
    if (rows == nullptr) return fail_sample(SampleErrorKind::kByteBudget, "no memory for the picture's rows");
    const auto decoded = decode_bmp(bytes_, bmp_, request.box, rows);
    if (!decoded) return std::unexpected(decoded.error());
    if (request.channels == 1) rgb_to_grey(rows, rows, pixels);
    return Region{.pixels = rows,
                  .stride = std::size_t{request.box.width} * request.channels,
                  .width = request.box.width,
                  .height = request.box.height,
                  .channels = request.channels};
}

}  // namespace sl
