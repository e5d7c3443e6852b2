// The region decode of jpeg.h. Everything between JpegDecoder::decode and libjpeg runs inside
// JpegSession::guarded(): only plain values live in those frames, because libjpeg may leave by longjmp.
#include "daemon/worker/decode/jpeg.h"

#include <algorithm>
#include <cstdlib>

#include "daemon/worker/decode/colour.h"
#include "daemon/worker/decode/jpeg_header.h"

namespace sl {
namespace {

// Fancy upsampling of a column reads the chroma samples beside its own: one chroma sample, two columns.
// Profile fast needs it as well: below two chroma samples jpeg_crop_scanline sets the separate upsampler up
// in the memory of the one that also converts colours.
constexpr std::uint32_t kColumnMargin = 2;
constexpr std::uint32_t kRowsPerCall = 16;

// A stretch of one axis, in pixels.
struct Span {
    std::uint32_t start = 0;
    std::uint32_t length = 0;
};

// `source` on an axis scaled by eighths/8, in whole pixels. False if that leaves fewer pixels than `target`,
// or if rounding moves the middle by more than a tenth of an output pixel.
bool scale_span(Span source, std::uint32_t eighths, std::uint32_t target, Span& scaled) {
    const std::int64_t first = std::int64_t{source.start} * eighths;  // in eighths of a scaled pixel
    const std::int64_t last = first + std::int64_t{source.length} * eighths;
    const std::int64_t start = (first + 3) / 8;
    const std::int64_t length = (last + 4) / 8 - start;
    if (length < 1 || last - first < std::int64_t{8} * target) return false;
    const std::int64_t moved = std::abs(8 * (2 * start + length) - (first + last));  // sixteenths
    if (moved * 10 * target > 16 * length) return false;
    scaled = {static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(length)};
    return true;
}

// The smallest of 4, 2 and 1 eighths at which both axes of the box allow it, else 8; and the box at that
// scale.
std::uint32_t choose_scale(const RegionRequest& request, Box& box) {
    box = request.box;
    for (const std::uint32_t eighths : {1U, 2U, 4U}) {
        Span x;
        Span y;
        if (scale_span({box.x, box.width}, eighths, request.target_width, x) &&
            scale_span({box.y, box.height}, eighths, request.target_height, y)) {
            box = {x.start, y.start, x.length, y.length};
            return eighths;
        }
    }
    return 8;
}

}  // namespace

// What one decode has decided so far. Plain values only.
struct JpegDecoder::Plan {
    std::span<const std::byte> bytes;
    ImageInfo info;
    RegionRequest request;
    Box box;                         // in output pixels, after DCT scaling
    bool whole = false;              // decode every row and column, to see whether the picture is complete
    bool smoothed = false;           // progressive with unfinished scans: libjpeg guesses the missing detail
    std::uint32_t first_column = 0;  // of the box within a decoded row
    std::size_t stride = 0;
    std::uint8_t* rows = nullptr;
    Region region;
};

SampleResult<Region> JpegDecoder::decode(std::span<const std::byte> bytes, const ImageInfo& info,
                                         const RegionRequest& request) {
    if (!session_.usable()) {
        return fail_sample(SampleErrorKind::kUnsupportedCoding, "the JPEG library could not be started");
    }
    Plan plan;
    plan.bytes = bytes;
    plan.info = info;
    plan.request = request;
    session_.start(bytes);
    const bool decoded = session_.guarded([&] {
        read_header(plan);
        choose_output(plan);
        start(plan);
        crop_columns(plan);
        read_rows(plan);
        check_arithmetic_end();
    });
    if (!decoded) return std::unexpected(session_.error());
    convert_rows(plan);

    // All rows were read: look at what follows them too. Damage there cannot touch the pixels any more.
    plan.region.warnings = session_.warnings();
    if (session_.library().output_scanline >= session_.library().output_height) {
        const bool finished = session_.guarded([&] { jpeg_finish_decompress(&session_.library()); });
        plan.region.warnings = session_.warnings() + (finished ? 0 : 1);
    }
    if (session_.input_ended() || plan.smoothed) ++plan.region.warnings;
    jpeg_abort_decompress(&session_.library());
    return plan.region;
}

void JpegDecoder::read_header(Plan& plan) {
    jpeg_decompress_struct& library = session_.library();
    jpeg_read_header(&library, TRUE);
    if (library.image_width != plan.info.width || library.image_height != plan.info.height) {
        session_.stop(SampleErrorKind::kCorrupt, "a second frame header contradicts the first");
    }
    const bool one_scan = !library.progressive_mode && library.comps_in_scan == library.num_components;
    if (one_scan) plan.whole = !has_end_marker(plan.bytes, session_.position());
}

void JpegDecoder::choose_output(Plan& plan) {
    jpeg_decompress_struct& library = session_.library();
    const bool fast = plan.request.profile == Profile::kFast;
    library.dct_method = fast ? JDCT_IFAST : JDCT_ISLOW;
    library.do_fancy_upsampling = fast ? FALSE : TRUE;
    if (library.num_components == 4) {
        library.out_color_space = JCS_CMYK;
        plan.region.ambiguous_colour = !library.saw_Adobe_marker;
    } else if (library.num_components == 1 && plan.request.channels == 1) {
        library.out_color_space = JCS_GRAYSCALE;
    } else {
        library.out_color_space = JCS_RGB;
    }
    plan.box = plan.request.box;
    if (fast) {
        library.scale_num = choose_scale(plan.request, plan.box);
        library.scale_denom = 8;
    }
}

// For files with several scans this reads all of them, so the end is known before the first row.
void JpegDecoder::start(Plan& plan) {
    jpeg_decompress_struct& library = session_.library();
    jpeg_start_decompress(&library);
    if (!jpeg_has_multiple_scans(&library)) return;
    for (int c = 0; c < library.num_components; ++c) {
        if (library.comp_info[c].quant_table != nullptr) continue;
        session_.stop(session_.input_ended() ? SampleErrorKind::kTruncated : SampleErrorKind::kCorrupt,
                      "a colour component has no scan");
    }
    if (!last_scan_missing()) return;
    if (session_.input_ended()) session_.stop(SampleErrorKind::kTruncated, "");
    plan.smoothed = true;
    plan.whole = true;  // smoothing looks at neighbouring blocks, so a region would differ
}

// Whether some coefficient of a progressive file never reached full accuracy.
bool JpegDecoder::last_scan_missing() {
    const jpeg_decompress_struct& library = session_.library();
    if (!library.progressive_mode || library.coef_bits == nullptr) return false;
    for (int c = 0; c < library.num_components; ++c) {
        for (int k = 0; k < DCTSIZE2; ++k) {
            if (library.coef_bits[c][k] != 0) return true;
        }
    }
    return false;
}

void JpegDecoder::crop_columns(Plan& plan) {
    jpeg_decompress_struct& library = session_.library();
    plan.first_column = plan.box.x;
    if (!plan.whole && plan.box.width < library.output_width) {
        JDIMENSION left = plan.box.x - std::min(plan.box.x, kColumnMargin);
        JDIMENSION columns =
            std::min(plan.box.x + plan.box.width + kColumnMargin, library.output_width) - left;
        jpeg_crop_scanline(&library, &left, &columns);  // moves `left` down to a block border
        plan.first_column = plan.box.x - left;
    }
    plan.stride = std::size_t{library.output_width} * static_cast<std::size_t>(library.output_components);
    plan.rows = rows_.reserve(plan.stride * plan.box.height);
    if (plan.rows == nullptr) session_.stop(SampleErrorKind::kByteBudget, "no memory for the picture's rows");
}

void JpegDecoder::read_rows(Plan& plan) {
    jpeg_decompress_struct& library = session_.library();
    if (plan.whole) {
        discard_rows(plan, plan.box.y);
    } else if (plan.box.y > 0) {
        jpeg_skip_scanlines(&library, plan.box.y);
    }
    const std::uint32_t end = plan.box.y + plan.box.height;
    while (library.output_scanline < end) {
        JSAMPROW pointers[kRowsPerCall];
        const std::uint32_t count = std::min(end - library.output_scanline, kRowsPerCall);
        for (std::uint32_t i = 0; i < count; ++i) {
            pointers[i] = plan.rows + plan.stride * (library.output_scanline - plan.box.y + i);
        }
        jpeg_read_scanlines(&library, pointers, count);
    }
    if (plan.whole) discard_rows(plan, library.output_height);
}

// An arithmetic decoder goes on with zeros behind the end and says nothing, so nobody can tell a lost end
// marker from a lost half: without the marker such a file counts as cut.
void JpegDecoder::check_arithmetic_end() {
    if (session_.library().arith_code && session_.input_ended())
        session_.stop(SampleErrorKind::kTruncated, "");
}

void JpegDecoder::discard_rows(Plan& plan, std::uint32_t until) {
    jpeg_decompress_struct& library = session_.library();
    JSAMPROW row = discarded_.reserve(plan.stride);
    if (row == nullptr) session_.stop(SampleErrorKind::kByteBudget, "no memory for a row");
    while (library.output_scanline < until)
        jpeg_read_scanlines(&library, &row, 1);
}

// CMYK to RGB, RGB to grey where asked; in place, row by row. Then points the region at the box's columns.
void JpegDecoder::convert_rows(Plan& plan) {
    const jpeg_decompress_struct& library = session_.library();
    auto channels = static_cast<std::size_t>(library.output_components);
    const bool inks = library.out_color_space == JCS_CMYK;
    const bool to_grey = plan.request.channels == 1 && library.out_color_space != JCS_GRAYSCALE;
    std::uint8_t* row = plan.rows + plan.first_column * channels;
    plan.region.pixels = row;
    plan.region.channels = plan.request.channels;
    if (inks || to_grey) {
        for (std::uint32_t y = 0; y < plan.box.height; ++y, row += plan.stride) {
            if (inks) inverted_cmyk_to_rgb(row, row, plan.box.width);
            if (to_grey) rgb_to_grey(row, row, plan.box.width);
        }
    }
    plan.region.stride = plan.stride;
    plan.region.width = plan.box.width;
    plan.region.height = plan.box.height;
}

}  // namespace sl
