// What a sample's cost depends on, as numbers: from its bytes, its picture and its draws.
//
// Called by the cost model. Pure and thread-safe; any input gives finite numbers.
//
// Features, in this order: 1; megabytes that are entropy-decoded; megapixels that are walked through;
// megapixels of the crop box. A baseline JPEG is decoded from its top to the crop's bottom edge and no
// further (worker/decode/jpeg.h), so its second and third count down to there. Everything else is decoded
// whole. What was measured is in docs/decisions/0014-prediction.md.
#pragma once

#include <cstdint>

#include "daemon/plan/pipeline.h"
#include "daemon/predict/regression.h"

namespace sl {

inline constexpr std::uint32_t kFormats = 16;  // of worker/decode/image.h; others share number 0
inline constexpr std::uint32_t kJpegFormat = 1;

// A picture as far as it matters here.
struct Picture {
    std::uint32_t format = 0;  // below kFormats
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    bool progressive = false;
};

Regression::Features cost_features(const Pipeline& pipeline, const DrawKey& key, std::uint64_t bytes,
                                   const Picture& picture);

// Weights in milliseconds for these features, as measured on one core.
const Regression::Features& usual_cost(std::uint32_t format, bool progressive);

// A picture's size from its file's, learned as log pixels = a + b log bytes with running means. A small
// value owned by one thread.
class SizeGuess {
  public:
    void learn(std::uint64_t bytes, const Picture& picture);
    // 4:3, since the crop's share and place hardly depend on the shape.
    [[nodiscard]] Picture guess(std::uint64_t bytes, std::uint32_t format) const;

    // As stored in a cost file; what is not finite or far off is replaced by the beginning.
    struct State {
        double bytes = 11;  // mean of log bytes, and so on
        double pixels = 12.6;
        double variance = 0.5;
        double covariance = 0.4;
        double seen = 0;
    };
    [[nodiscard]] const State& state() const { return state_; }
    void restore(const State& state);

  private:
    State state_;
};

}  // namespace sl
