// Probe, draw, decode, resize, crop, flip: execute.h, in that order.
#include "daemon/worker/transform/execute.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/plan/draws.h"

namespace sl {
namespace {

void mirror_row(std::uint8_t* row, std::size_t pixels, std::size_t channels) {
    if (pixels == 0) return;
    for (std::size_t left = 0, right = pixels - 1; left < right; ++left, --right) {
        std::swap_ranges(row + left * channels, row + (left + 1) * channels, row + right * channels);
    }
}

// Pipeline.width x height pixels of `resized` from (crop_x, crop_y) on, zeros where it has none, mirrored
// last.
void place_window(const Pipeline& pipeline, const Geometry& geometry, const std::uint8_t* resized,
                  std::uint8_t* out) {
    const std::int64_t channels = pipeline.channels;
    const std::int64_t row_bytes = pipeline.width * channels;
    const std::int64_t x0 = std::max<std::int64_t>(geometry.crop_x, 0);
    const std::int64_t x1 =
        std::min<std::int64_t>(geometry.crop_x + std::int64_t{pipeline.width}, geometry.resize_width);
    for (std::uint32_t y = 0; y < pipeline.height; ++y, out += row_bytes) {
        const std::int64_t from = std::int64_t{y} + geometry.crop_y;
        const bool inside = from >= 0 && from < geometry.resize_height && x0 < x1;
        if (!inside || x1 - x0 < pipeline.width) std::memset(out, 0, static_cast<std::size_t>(row_bytes));
        if (!inside) continue;
        std::memcpy(out + (x0 - geometry.crop_x) * channels,
                    resized + (from * geometry.resize_width + x0) * channels,
                    static_cast<std::size_t>((x1 - x0) * channels));
        if (geometry.flip) mirror_row(out, pipeline.width, pipeline.channels);
    }
}

}  // namespace

SampleResult<Executed> Executor::execute(const Pipeline& pipeline, const DrawKey& key,
                                         std::span<const std::byte> file, std::uint8_t* out) {
    if (pipeline.channels != 1 && pipeline.channels != 3) {
        return fail_sample(SampleErrorKind::kShapeMismatch,
                           "pictures have 1 or 3 channels, not " + std::to_string(pipeline.channels));
    }
    const auto info = decoder_.probe(file, pipeline.max_pixels);
    if (!info) return std::unexpected(info.error());
    const Geometry geometry = resolve_geometry(pipeline, key, info->width, info->height);
    if (const auto possible = check_geometry(pipeline, geometry); !possible) {
        return std::unexpected(possible.error());
    }
    const auto region = decoder_.decode_region({.box = geometry.box,
                                                .channels = pipeline.channels,
                                                .profile = pipeline.profile,
                                                .target_width = geometry.resize_width,
                                                .target_height = geometry.resize_height});
    if (!region) return std::unexpected(region.error());
    if (const auto rendered = render(pipeline, geometry, *region, out); !rendered) {
        return std::unexpected(rendered.error());
    }
    return Executed{.format = info->format,
                    .width = info->width,
                    .height = info->height,
                    .progressive = info->progressive,
                    .warnings = region->warnings,
                    .ambiguous_colour = region->ambiguous_colour,
                    .geometry = geometry};
}

SampleResult<void> Executor::render(const Pipeline& pipeline, const Geometry& geometry, const Region& region,
                                    std::uint8_t* out) {
    const bool whole = geometry.crop_x == 0 && geometry.crop_y == 0 &&
                       geometry.resize_width == pipeline.width && geometry.resize_height == pipeline.height;
    const PassOrder order =
        pipeline.profile == Profile::kPillow13 ? PassOrder::kSteeperFirst : PassOrder::kAcrossFirst;
    if (whole) return resize(region, geometry, geometry.flip, order, out);
    const std::size_t bytes = resized_pixels(geometry) * pipeline.channels;
    std::uint8_t* resized = resized_.reserve(bytes);
    if (resized == nullptr) {
        return fail_sample(SampleErrorKind::kByteBudget,
                           "no memory for " + std::to_string(bytes) + " bytes of resized picture");
    }
    if (const auto done = resize(region, geometry, false, order, resized); !done) return done;
    place_window(pipeline, geometry, resized, out);
    return {};
}

SampleResult<void> Executor::resize(const Region& region, const Geometry& geometry, bool flip,
                                    PassOrder order, std::uint8_t* out) {
    const ImageView view{.data = region.pixels,
                         .width = region.width,
                         .height = region.height,
                         .channels = region.channels,
                         .stride = region.stride};
    return resampler_.bilinear(view, geometry.resize_width, geometry.resize_height, flip, out, order);
}

}  // namespace sl
