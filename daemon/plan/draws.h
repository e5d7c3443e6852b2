// What one sample's random draws decide: which box of the picture, what size, mirrored or not.
//
// Called by the predictor (before any byte is read) and by the workers (once the picture's size is known). A
// pure function of (pipeline, draw key, size), with torchvision's distributions and roundings; thread-safe. A
// geometry that cannot become a sample is found by check_geometry, before any buffer exists.
//
// Source of the formulas: torchvision.transforms, RandomResizedCrop.get_params, Resize, CenterCrop.
#pragma once

#include <cstdint>

#include "daemon/plan/pipeline.h"
#include "shm/error.h"

namespace sl {

// The box, sizes and flip for a picture of `width` x `height` pixels (each at least 1; with a 0 the geometry
// is empty, which check_geometry refuses). The box lies within the picture, and no side of it or of the
// resize's output is 0. A side of 2^32 or more is given as 2^32 - 1, beyond any pixel budget. Where nothing
// scales, `box` is only what the crop shows, so that a worker can decode a region; then resize size and box
// are equal.
Geometry resolve_geometry(const Pipeline& pipeline, const DrawKey& key, std::uint32_t width,
                          std::uint32_t height);

// Pixels of the resize's output, before the crop.
std::uint64_t resized_pixels(const Geometry& geometry);

// Whether any op sets the size of the output. Without one, Pipeline.height and width are 0 until the daemon
// sets them to its first picture's size, and every other picture must have that size.
bool has_fixed_size(const Pipeline& pipeline);

// pixel_budget if the resize's output has more than Pipeline.max_pixels; shape_mismatch if no op sets the
// size and the picture's is not the pipeline's, or if the picture has no pixels.
SampleResult<void> check_geometry(const Pipeline& pipeline, const Geometry& geometry);

// The share of the picture's area that the crop will read, as the first try of random_resized_crop draws it;
// 1.0 without that op. For prediction before the size is known: a try that does not fit is drawn again later.
double expected_area_fraction(const Pipeline& pipeline, const DrawKey& key);

}  // namespace sl
