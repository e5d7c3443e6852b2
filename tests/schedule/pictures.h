// Made-up pictures whose costs follow a law that is known, for the tests of the predictor. Plain values.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "daemon/plan/draws.h"
#include "daemon/predict/predictor.h"

namespace sl {

inline constexpr std::uint32_t kJpeg = 1;
inline constexpr std::uint32_t kPng = 2;
inline constexpr std::uint64_t kIds = 10'000'000;

inline Pipeline resize_only() {
    Pipeline pipeline;
    pipeline.ops[0].kind = OpKind::kDecode;
    pipeline.ops[1].kind = OpKind::kResize;
    pipeline.ops[1].height = pipeline.ops[1].width = 224;
    pipeline.op_count = 2;
    pipeline.height = pipeline.width = 224;
    return pipeline;
}

inline Pipeline random_crop() {
    Pipeline pipeline = resize_only();
    pipeline.ops[1].kind = OpKind::kRandomResizedCrop;
    pipeline.ops[1].slot = 1;
    return pipeline;
}

// Pictures of 20 KB to 2 MB that cost a fixed part and a part per byte, with five per cent of noise.
class Pictures {
  public:
    explicit Pictures(std::uint32_t seed, std::uint64_t first_id = 0) : random_(seed), next_id_(first_id) {}

    struct Picture {
        DrawKey key;
        std::uint64_t bytes;
    };
    Picture next() {
        std::uniform_real_distribution<double> exponent(std::log(20e3), std::log(2e6));
        return {{1, 0, next_id_++}, static_cast<std::uint64_t>(std::exp(exponent(random_)))};
    }
    double noise() { return 1 + 0.05 * std::normal_distribution<double>()(random_); }

  private:
    std::mt19937 random_;
    std::uint64_t next_id_;
};

inline double cost_of(std::uint64_t bytes) {
    return 400e3 + 11.0 * static_cast<double>(bytes);
}

inline Observed seen_at(std::uint64_t bytes, double cost, std::uint32_t format = kJpeg,
                        bool progressive = false) {
    const auto side = static_cast<std::uint32_t>(std::sqrt(6.0 * static_cast<double>(bytes)));
    return {format, side, side, progressive, cost};
}

inline void train(Predictor& predictor, Pictures& pictures, int count, double factor = 1,
                  bool progressive = false) {
    for (int i = 0; i < count; ++i) {
        const auto picture = pictures.next();
        const double cost = factor * cost_of(picture.bytes) * pictures.noise();
        predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, cost, kJpeg, progressive));
    }
}

// A JPEG of any shape that costs what is entropy-decoded down to the crop's bottom edge, and the crop's area:
// the machine of this test knows nothing else.
struct Cropped {
    DrawKey key;
    std::uint64_t bytes;
    Observed observed;
};

inline Cropped cropped(Pictures& pictures, const Pipeline& pipeline, std::uint64_t id, std::uint64_t epoch) {
    std::mt19937 shape(static_cast<std::uint32_t>(id));
    const auto width = static_cast<std::uint32_t>(200 + shape() % 1800);
    const auto height = static_cast<std::uint32_t>(200 + shape() % 1800);
    const std::uint64_t bytes = std::uint64_t{width} * height / (2 + shape() % 12);
    const DrawKey key{5, epoch, id};
    const Geometry geometry = resolve_geometry(pipeline, key, width, height);
    const double down_to = static_cast<double>(geometry.box.y + geometry.box.height) / height;
    const double box = static_cast<double>(geometry.box.width) * geometry.box.height;
    const double cost = 150e3 + 20 * down_to * static_cast<double>(bytes) + 6 * box;
    return {key, bytes, {kJpeg, width, height, false, cost * pictures.noise()}};
}

}  // namespace sl
