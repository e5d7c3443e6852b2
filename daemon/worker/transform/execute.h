// One sample's work from encoded bytes to finished pixels: what a worker process does with a job.
//
// Called by the worker's job loop, one Executor per worker; not thread-safe. Pure otherwise: the same
// pipeline, key and bytes give the same pixels, whatever was executed before. Every failure is a typed
// SampleError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/plan/pipeline.h"
#include "daemon/worker/decode/decoder.h"
#include "daemon/worker/transform/resample.h"
#include "shm/error.h"

namespace sl {

// What became known about the sample on the way: features for the predictor, counters, the draws.
struct Executed {
    ImageFormat format = ImageFormat::kUnknown;
    std::uint32_t width = 0;  // of the picture as stored
    std::uint32_t height = 0;
    bool progressive = false;
    std::uint32_t warnings = 0;  // harmless decoder warnings; the sample counts as decode_warnings if not 0
    bool ambiguous_colour = false;  // four-component JPEG without an Adobe marker, taken as inverted
    Geometry geometry;
};

class Executor {
  public:
    // Decodes `file`, and writes Pipeline.height x width x channels packed bytes at `out`: exactly
    // pipeline.sample_bytes(). On failure `out` holds nothing of use.
    SampleResult<Executed> execute(const Pipeline& pipeline, const DrawKey& key,
                                   std::span<const std::byte> file, std::uint8_t* out);

  private:
    SampleResult<void> render(const Pipeline& pipeline, const Geometry& geometry, const Region& region,
                              std::uint8_t* out);
    SampleResult<void> resize(const Region& region, const Geometry& geometry, bool flip, PassOrder order,
                              std::uint8_t* out);

    Decoder decoder_;
    Resampler resampler_;
    Scratch resized_;
};

}  // namespace sl
