// What the photographs of a set with a known spread of cost shall be: sets A to D of bench/tail.py.
//
// Called by make_photos.cpp (--set). A pure function of its arguments; nothing can fail.
#pragma once

#include "photo.h"

namespace sl::makers {

// A: one in 100 is a progressive JPEG of 24 megapixels. B: pixels lognormal, so that the cost varies by about
// its mean. C: one in 5 has about twenty times the pixels. D: all 500 x 375. The others of A and C are like
// the photographs of ImageNet, without its few large ones. Whoever costs much has `heavy` set.
enum class TailSet : char { kA = 'A', kB = 'B', kC = 'C', kD = 'D' };

// As draw_order (photo.h), and a size that no wallpaper has is kept: make_photo folds the picture.
[[nodiscard]] Order draw_tail_order(TailSet set, std::uint64_t seed, const std::vector<Source>& sources,
                                    int number);

}  // namespace sl::makers
