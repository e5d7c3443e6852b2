// Decodes one region of a JPEG picture, with libjpeg-turbo's libjpeg interface.
//
// Called by Decoder; one per worker, not thread-safe, reused so that nothing large is allocated per picture.
// Promise: the region's bytes are those of decoding the whole picture and cropping (profile pillow: accurate
// integer DCT and fancy upsampling, as Pillow). Two columns left and right are decoded and dropped, since
// chroma upsampling looks at its neighbours; rows above the region are parsed but not transformed, rows below
// it are not read at all.
//
// Damage: what counts as fatal is in jpeg_source.h. Rows below the region are not looked at, so a fault there
// goes unnoticed in a sample that does not show it. Truncation is the exception, since it must not depend on
// the draw: a file without an end marker is decoded whole first; if the picture is complete it is delivered
// with a warning, else it is `truncated`.
//
// Profile fast: the quick DCT and plain chroma; and it shrinks to 1/2, 1/4 or 1/8 in the DCT domain where the
// box stays at least as large as its target and is moved by no more than a tenth of an output pixel. Other
// factors are left out because libjpeg-turbo has no SIMD for them: they cost more than they save. How far its
// pixels are from profile pillow's is in docs/decisions/0003-profile-fast.md.
#pragma once

#include <cstddef>
#include <span>

#include "daemon/worker/decode/image.h"
#include "daemon/worker/decode/jpeg_source.h"
#include "shm/error.h"

namespace sl {

class JpegDecoder {
  public:
    // `info` is read_jpeg_header's; the request's box lies inside it.
    SampleResult<Region> decode(std::span<const std::byte> bytes, const ImageInfo& info,
                                const RegionRequest& request);

  private:
    struct Plan;
    void read_header(Plan& plan);
    void choose_output(Plan& plan);
    void start(Plan& plan);
    void crop_columns(Plan& plan);
    void read_rows(Plan& plan);
    void check_arithmetic_end();
    void discard_rows(Plan& plan, std::uint32_t until);
    bool last_scan_missing();
    void convert_rows(Plan& plan);

    JpegSession session_;
    Scratch rows_;
    Scratch discarded_;
};

}  // namespace sl
