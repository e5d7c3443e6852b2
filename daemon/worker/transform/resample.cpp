#include "daemon/worker/transform/resample.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "daemon/worker/transform/resample_kernels.h"
#include "daemon/simd/simd_switch.h"

namespace sl {

namespace {

constexpr std::size_t kStoreSlack = 16;  // what the horizontal pass may write beyond a row

std::uint32_t output_channels(const ImageView& source) {
    return source.channels == 1 ? 1 : 3;
}

// At least `bytes` of scratch, grown by need and kept.
std::uint8_t* scratch(std::vector<std::uint8_t>& memory, std::size_t bytes) {
    if (memory.size() < bytes) memory.resize(bytes);
    return memory.data();
}

// Pillow 13's choice (python-pillow/Pillow pull request 9549).
bool height_goes_first(const ImageView& source, std::uint32_t out_width, std::uint32_t out_height) {
    const std::int64_t down = std::int64_t{source.height} - out_height;
    const std::int64_t across = std::int64_t{source.width} - out_width;
    return across != 0 && down > 0 && down > 2 * across;
}

void copy_pixels(const std::uint8_t* row, const ImageView& view, bool flip, std::uint8_t* out) {
    const std::uint32_t channels = output_channels(view);
    if (!flip && channels == view.channels) {
        std::memcpy(out, row, std::size_t{view.width} * channels);
        return;
    }
    for (std::uint32_t x = 0; x < view.width; ++x) {
        const std::size_t from = std::size_t{flip ? view.width - 1 - x : x} * view.channels;
        for (std::uint32_t c = 0; c < channels; ++c)
            out[std::size_t{x} * channels + c] = row[from + c];
    }
}

}  // namespace

Resampler::Resampler() {
    simd_allowed();
}

SampleResult<void> Resampler::bilinear(const ImageView& source, std::uint32_t out_width,
                                       std::uint32_t out_height, bool flip, std::uint8_t* out,
                                       PassOrder order) {
    const bool known = source.channels == 1 || source.channels == 3 || source.channels == 4;
    if (!known || source.width == 0 || source.height == 0 || out_width == 0 || out_height == 0) {
        return fail_sample(SampleErrorKind::kShapeMismatch,
                           "the resize needs a picture and a size above zero");
    }
    try {
        const bool height_first =
            order == PassOrder::kSteeperFirst && height_goes_first(source, out_width, out_height);
        resize(height_first ? shrink_height(source, out_height) : source, out_width, out_height, flip, out);
    } catch (const std::bad_alloc&) {
        return fail_sample(SampleErrorKind::kByteBudget, "no memory for the resize");
    }
    return {};
}

ImageView Resampler::shrink_height(const ImageView& source, std::uint32_t out_height) {
    compute_taps(source.height, out_height, down_);
    const std::size_t row_bytes = std::size_t{source.width} * source.channels;
    std::uint8_t* shrunk = scratch(shrunk_, row_bytes * out_height);
    resample_vertical({source.data, source.stride, 0, row_bytes, shrunk, &down_});
    return {.data = shrunk,
            .width = source.width,
            .height = out_height,
            .channels = source.channels,
            .stride = row_bytes};
}

// Pillow's order: rows first, into 8-bit pixels, and only those rows that the columns' pass will read; a pass
// that would change nothing is left out.
void Resampler::resize(const ImageView& source, std::uint32_t out_width, std::uint32_t out_height, bool flip,
                       std::uint8_t* out) {
    const bool across = out_width != source.width;
    const bool down = out_height != source.height;
    ImageView rows = source;
    std::uint32_t first_row = 0;
    if (down) {
        compute_taps(source.height, out_height, down_);
        first_row = down_.first.front();
        rows.data += first_row * source.stride;
        rows.height = down_.first.back() + down_.count.back() - first_row;
    }

    Middle middle{rows.data, rows.stride};
    if (across) {
        middle = source.channels == 1 ? horizontal_one_channel(rows, out_width, flip)
                                      : horizontal(rows, out_width, flip);
    } else if (flip || source.channels == 4) {
        middle = copy_rows(rows, flip);
    }

    const std::size_t row_bytes = std::size_t{out_width} * output_channels(source);
    if (down) {
        resample_vertical({middle.data, middle.stride, first_row, row_bytes, out, &down_});
        return;
    }
    for (std::uint32_t y = 0; y < out_height; ++y) {
        std::memcpy(out + y * row_bytes, middle.data + y * middle.stride, row_bytes);
    }
}

Resampler::Middle Resampler::horizontal(const ImageView& rows, std::uint32_t out_width, bool flip) {
    compute_taps(rows.width, out_width, across_);
    const std::uint32_t channels = output_channels(rows);
    const std::size_t out_stride = std::size_t{out_width} * channels + kStoreSlack;
    HorizontalJob job{
        rows.data,  rows.stride, rows.height, rows.channels, scratch(middle_, out_stride * rows.height),
        out_stride, channels,    flip,        &across_,      &plan_};
    if (!build_row_plan(across_, {rows.channels, rows.width, flip}, plan_)) {
        const std::uint32_t readable = rows.width + kPaddingPixels;
        job.stride = std::size_t{readable} * rows.channels;
        std::uint8_t* padded = scratch(padded_, job.stride * rows.height);
        for (std::uint32_t y = 0; y < rows.height; ++y) {
            std::memcpy(padded + y * job.stride, rows.data + y * rows.stride,
                        std::size_t{rows.width} * rows.channels);
        }
        job.source = padded;
        build_row_plan(across_, {rows.channels, readable, flip}, plan_);
    }
    resample_horizontal(job);
    return {job.out, job.out_stride};
}

// Four rows become one row of 4-byte pixels, so that the pass for colour pictures does the work.
Resampler::Middle Resampler::horizontal_one_channel(const ImageView& rows, std::uint32_t out_width,
                                                    bool flip) {
    compute_taps(rows.width, out_width, across_);
    const std::uint32_t readable = rows.width + kPaddingPixels;
    build_row_plan(across_, {4, readable, flip}, plan_);
    const std::uint32_t groups = (rows.height + 3) / 4;
    const std::size_t stride = std::size_t{readable} * 4;
    const std::size_t out_stride = std::size_t{out_width} * 4 + kStoreSlack;
    std::uint8_t* padded = scratch(padded_, stride * groups);
    std::uint8_t* resized = scratch(groups_, out_stride * groups);
    std::uint8_t* middle = scratch(middle_, std::size_t{out_width} * 4 * groups);
    for (std::uint32_t group = 0; group < groups; ++group) {
        const std::uint8_t* four[4];
        for (std::uint32_t i = 0; i < 4; ++i) {
            four[i] = rows.data + std::min(group * 4 + i, rows.height - 1) * rows.stride;
        }
        interleave_rows(four, rows.width, padded + group * stride);
    }
    resample_horizontal({padded, stride, groups, 4, resized, out_stride, 4, flip, &across_, &plan_});
    for (std::uint32_t group = 0; group < groups; ++group) {
        std::uint8_t* four[4];
        for (std::uint32_t i = 0; i < 4; ++i)
            four[i] = middle + std::size_t{group * 4 + i} * out_width;
        split_rows(resized + group * out_stride, out_width, four);
    }
    return {middle, out_width};
}

Resampler::Middle Resampler::copy_rows(const ImageView& rows, bool flip) {
    const std::size_t stride = std::size_t{rows.width} * output_channels(rows);
    std::uint8_t* middle = scratch(middle_, stride * rows.height);
    for (std::uint32_t y = 0; y < rows.height; ++y) {
        copy_pixels(rows.data + y * rows.stride, rows, flip, middle + y * stride);
    }
    return {middle, stride};
}

}  // namespace sl
