// The draws behind random_resized_crop, resize, center_crop and flip; see draws.h. Pure and thread-safe.
#include "daemon/plan/draws.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "daemon/plan/random.h"

namespace sl {
namespace {

constexpr int kCropTries = 10;

// Python's round(): half to even, which nearbyint does in the default rounding mode.
double round_half_even(double v) {
    return std::nearbyint(v);
}

// For a value in (0, limit]; a side that rounds to 0 becomes 1.
std::uint32_t to_side(double v, std::uint32_t limit) {
    return static_cast<std::uint32_t>(std::clamp(v, 1.0, static_cast<double>(limit)));
}

std::span<const Op> ops_of(const Pipeline& pipeline) {
    return std::span(pipeline.ops).first(std::min(pipeline.op_count, kMaxOps));
}

double draw_area_fraction(const Op& op, Random& random) {
    return random.uniform(op.scale[0], op.scale[1]);
}

// torchvision's fallback: the largest central box whose ratio is within the bounds.
Box central_box(const Op& op, std::uint32_t width, std::uint32_t height) {
    const double in_ratio = static_cast<double>(width) / height;
    std::uint32_t w = width;
    std::uint32_t h = height;
    if (in_ratio < op.ratio[0]) h = to_side(round_half_even(w / op.ratio[0]), height);
    if (in_ratio > op.ratio[1]) w = to_side(round_half_even(h * op.ratio[1]), width);
    return {(width - w) / 2, (height - h) / 2, w, h};
}

Box draw_box(const Op& op, const DrawKey& key, std::uint32_t width, std::uint32_t height) {
    Random random(key, op.slot);
    const double area = static_cast<double>(width) * height;
    const double log_low = std::log(op.ratio[0]);
    const double log_high = std::log(op.ratio[1]);
    for (int attempt = 0; attempt < kCropTries; ++attempt) {
        const double target = area * draw_area_fraction(op, random);
        const double ratio = std::exp(random.uniform(log_low, log_high));
        const double w = round_half_even(std::sqrt(target * ratio));
        const double h = round_half_even(std::sqrt(target / ratio));
        if (w < 1 || w > width || h < 1 || h > height) continue;
        Box box{
            .x = 0, .y = 0, .width = static_cast<std::uint32_t>(w), .height = static_cast<std::uint32_t>(h)};
        box.y = static_cast<std::uint32_t>(random.below(std::uint64_t{height} - box.height + 1));
        box.x = static_cast<std::uint32_t>(random.below(std::uint64_t{width} - box.width + 1));
        return box;
    }
    return central_box(op, width, height);
}

// The long side of a resize that brings the short side to `target`: Python's int(target * long / short).
std::uint32_t long_side(std::uint32_t target, std::uint32_t longer, std::uint32_t shorter) {
    const std::uint64_t side = std::uint64_t{target} * longer / shorter;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(side, 1, UINT32_MAX));
}

void resize(const Op& op, Geometry& g) {
    if (op.width != 0) {
        g.resize_width = op.width;
        g.resize_height = op.height;
    } else if (g.box.width <= g.box.height) {
        g.resize_height = long_side(op.height, g.box.height, g.box.width);
        g.resize_width = op.height;
    } else {
        g.resize_width = long_side(op.height, g.box.width, g.box.height);
        g.resize_height = op.height;
    }
}

// Where a central crop of `want` begins on a side of `have`; negative where torchvision would pad first.
std::int32_t crop_offset(std::uint32_t have, std::uint32_t want) {
    if (want > have) return -static_cast<std::int32_t>((want - have) / 2);
    return static_cast<std::int32_t>(round_half_even((have - want) / 2.0));
}

// The picture as far as the ops so far: what is left of it after the crops, and where that lies.
struct View {
    std::int32_t x = 0, y = 0;
    std::uint32_t width = 0, height = 0;
    bool flip = false;
};

void center_crop(const Op& op, View& view) {
    const std::int32_t dx = crop_offset(view.width, op.width);
    // In a mirrored picture an offset from the left is one from the right.
    view.x += view.flip ? static_cast<std::int32_t>(std::int64_t{view.width} - op.width - dx) : dx;
    view.y += crop_offset(view.height, op.height);
    view.width = op.width;
    view.height = op.height;
}

// Nothing scales: let the box be only what the crop shows of the picture, on one axis.
void shrink_to_crop(std::uint32_t& start, std::uint32_t& length, std::int32_t& crop, std::uint32_t want) {
    const std::int64_t end = std::min<std::int64_t>(length, std::int64_t{crop} + want);
    start = static_cast<std::uint32_t>(std::max(crop, 0));
    length = static_cast<std::uint32_t>(end - start);
    crop = std::min(crop, 0);
}

}  // namespace

Geometry resolve_geometry(const Pipeline& pipeline, const DrawKey& key, std::uint32_t width,
                          std::uint32_t height) {
    if (width == 0 || height == 0) return {};
    Geometry g{.box = {0, 0, width, height}, .resize_width = width, .resize_height = height};
    View view{.width = width, .height = height};
    bool scaled = false;
    for (const Op& op : ops_of(pipeline)) {
        switch (op.kind) {
            case OpKind::kRandomResizedCrop:
                g.box = draw_box(op, key, width, height);
                [[fallthrough]];
            case OpKind::kResize:
                resize(op, g);
                view = {.width = g.resize_width, .height = g.resize_height, .flip = view.flip};
                scaled = true;
                break;
            case OpKind::kCenterCrop:
                center_crop(op, view);
                break;
            case OpKind::kRandomHorizontalFlip:
                view.flip ^= Random(key, op.slot).uniform() < op.probability;
                break;
            case OpKind::kDecode:
            case OpKind::kNormalize:
                break;
        }
    }
    g.crop_x = view.x;
    g.crop_y = view.y;
    g.flip = view.flip;
    if (!scaled) {
        shrink_to_crop(g.box.x, g.box.width, g.crop_x, view.width);
        shrink_to_crop(g.box.y, g.box.height, g.crop_y, view.height);
        g.resize_width = g.box.width;
        g.resize_height = g.box.height;
    }
    return g;
}

std::uint64_t resized_pixels(const Geometry& geometry) {
    return std::uint64_t{geometry.resize_width} * geometry.resize_height;
}

bool has_fixed_size(const Pipeline& pipeline) {
    return std::ranges::any_of(ops_of(pipeline), [](const Op& op) {
        return op.kind == OpKind::kRandomResizedCrop || op.kind == OpKind::kResize ||
               op.kind == OpKind::kCenterCrop;
    });
}

SampleResult<void> check_geometry(const Pipeline& pipeline, const Geometry& geometry) {
    const std::string size =
        std::to_string(geometry.resize_width) + " x " + std::to_string(geometry.resize_height);
    if (geometry.box.width == 0 || geometry.box.height == 0) {
        return fail_sample(SampleErrorKind::kShapeMismatch, "picture has no pixels");
    }
    if (resized_pixels(geometry) > pipeline.max_pixels) {
        return fail_sample(SampleErrorKind::kPixelBudget, "resizing would make " + size +
                                                              " pixels, more than max_pixels " +
                                                              std::to_string(pipeline.max_pixels));
    }
    if (!has_fixed_size(pipeline) &&
        (geometry.resize_width != pipeline.width || geometry.resize_height != pipeline.height)) {
        return fail_sample(SampleErrorKind::kShapeMismatch,
                           "picture is " + size + " (width x height), the batch is " +
                               std::to_string(pipeline.width) + " x " + std::to_string(pipeline.height) +
                               ": add resize with [height, width], or random_resized_crop, to the pipeline");
    }
    return {};
}

double expected_area_fraction(const Pipeline& pipeline, const DrawKey& key) {
    for (const Op& op : ops_of(pipeline)) {
        if (op.kind != OpKind::kRandomResizedCrop) continue;
        Random random(key, op.slot);
        return draw_area_fraction(op, random);
    }
    return 1.0;
}

}  // namespace sl
