// Scaling by libyuv: the resize of profile `fast`, near Pillow's pixels but not equal to them.
//
// Called by worker processes, one FastScaler each; not thread-safe, because it keeps its scratch memory. A
// failure is a SampleError: a shape that libyuv does not take (shape_mismatch) or scratch memory that cannot
// be had (byte_budget); the FastScaler stays usable.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/transform/image_view.h"
#include "shm/error.h"

namespace sl {

// Order of the bytes of a 4-byte pixel in memory.
enum class PixelOrder : std::uint32_t { kRgbx = 0, kBgrx = 1 };

// height x width 4-byte pixels -> packed RGB. `stride` is the source's, in bytes.
void drop_fourth_byte(const ImageView& source, PixelOrder order, std::uint8_t* out);

class FastScaler {
  public:
    FastScaler();

    // Writes `source` (4 bytes a pixel) scaled to out_width x out_height at `out`: RGB, rows without padding,
    // mirrored left to right with `flip`. libyuv's box filter where a side shrinks, else its bilinear.
    [[nodiscard]] SampleResult<void> scale(const ImageView& source, PixelOrder order, std::uint32_t out_width,
                                           std::uint32_t out_height, bool flip, std::uint8_t* out);

  private:
    std::vector<std::uint8_t> scaled_;
    std::vector<std::uint8_t> mirrored_;
};

}  // namespace sl
