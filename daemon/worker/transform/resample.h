// Resizing exactly as Pillow does it: the resize of profile `pillow`.
//
// Called by worker processes, one Resampler each; not thread-safe, because it keeps its tables and scratch
// memory from one picture to the next. A failure is a SampleError: a shape that cannot be (shape_mismatch) or
// scratch memory that cannot be had (byte_budget); the Resampler stays usable.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/transform/image_view.h"
#include "daemon/worker/transform/taps.h"
#include "shm/error.h"

namespace sl {

// Which pass comes first matters for the last bit, because pixels are rounded to 8 bits between the passes.
enum class PassOrder {
    kAcrossFirst,   // Pillow up to 12
    kSteeperFirst,  // Pillow 13: down first, where the height shrinks by more than twice as many pixels
};

class Resampler {
  public:
    Resampler();

    // Writes `source` resized to out_width x out_height at `out`: rows without padding, 1 byte a pixel for
    // one-channel pictures, else 3 (the fourth byte of a 4-byte pixel is dropped). With `flip` the result is
    // mirrored left to right, at no cost. The bytes are those of Pillow's Image.resize((w, h), BILINEAR) of
    // the 8-bit picture that the view shows. Never reads outside the view's rows.
    [[nodiscard]] SampleResult<void> bilinear(const ImageView& source, std::uint32_t out_width,
                                              std::uint32_t out_height, bool flip, std::uint8_t* out,
                                              PassOrder order = PassOrder::kAcrossFirst);

  private:
    // Rows between the two passes.
    struct Middle {
        const std::uint8_t* data;
        std::size_t stride;
    };

    void resize(const ImageView& source, std::uint32_t out_width, std::uint32_t out_height, bool flip,
                std::uint8_t* out);
    ImageView shrink_height(const ImageView& source, std::uint32_t out_height);
    Middle horizontal(const ImageView& rows, std::uint32_t out_width, bool flip);
    Middle horizontal_one_channel(const ImageView& rows, std::uint32_t out_width, bool flip);
    Middle copy_rows(const ImageView& rows, bool flip);

    AxisTaps across_;
    AxisTaps down_;
    RowPlan plan_;
    std::vector<std::uint8_t> shrunk_;  // rows after a vertical pass that came first
    std::vector<std::uint8_t> middle_;  // rows after the horizontal pass
    std::vector<std::uint8_t> padded_;  // source rows that had to be moved to be read in 16-byte loads
    std::vector<std::uint8_t> groups_;  // four one-channel rows a row, after the horizontal pass
};

}  // namespace sl
