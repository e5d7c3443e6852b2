// The predictor: features known before the work -> cost -> lane.
//
// One per stream (a model per picture format and pipeline), owned by the conductor thread. Features: file
// bytes, pixels once known (from an earlier epoch; until then the format's usual pixels per byte), and the
// share of the picture that the drawn crop reads. Model: online regression per format, progressive JPEGs
// apart.
//
// Lanes come from the live distribution: a sample is *light* up to 4 times the running median cost, *medium*
// up to 16 times, *heavy* beyond. A wrong prediction costs time, never correctness.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "daemon/plan/pipeline.h"
#include "daemon/predict/regression.h"

namespace sl {

enum class Lane : std::uint32_t { kLight = 0, kMedium = 1, kHeavy = 2 };
inline constexpr std::uint32_t kLanes = 3;

// What the worker found out about a picture; kept per sample for later epochs.
struct Observed {
    std::uint32_t format = 0;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    bool progressive = false;
    double cost_ns = 0;  // CPU time of decode and transforms
};

struct Prediction {
    double cost_ns = 0;
    Lane lane = Lane::kLight;
};

class Predictor {
  public:
    explicit Predictor(const Pipeline& pipeline);

    // `format_hint`: the format its name suggests, 0 if none; what was observed of the sample goes before it.
    Prediction predict(const DrawKey& key, std::uint64_t bytes, std::uint32_t format_hint);
    void observe(const DrawKey& key, std::uint64_t bytes, const Observed& observed);

    // The lane that a cost belongs to now.
    [[nodiscard]] Lane lane_of(double cost_ns) const;
    [[nodiscard]] double typical_ns() const { return median_ns_; }
    [[nodiscard]] double mean_ns() const { return mean_ns_; }

  private:
    struct Known {
        float pixels = 0;
        std::uint16_t format = 0;
        bool progressive = false;
    };
    static constexpr std::size_t kModels = 32;

    [[nodiscard]] static std::size_t model_index(std::uint32_t format, bool progressive);
    [[nodiscard]] Regression::Features features(const DrawKey& key, std::uint64_t bytes, double pixels) const;

    Pipeline pipeline_;
    std::array<Regression, kModels> models_;
    std::array<double, kModels> pixels_per_byte_;
    std::unordered_map<std::uint64_t, Known> known_;
    double median_ns_;
    double mean_ns_;
    std::uint64_t observations_ = 0;
};

}  // namespace sl
