// One worker's picture decoder: any supported format in, one region's pixels out.
//
// Called by transform/execute, once probe() and once decode_region() per sample. Not thread-safe; each worker
// has its own and keeps it, so that buffers and library state are reused. start_codecs() must have run.
// Every failure is a typed SampleError; no size, however large, is allocated before the caller has seen it in
// ImageInfo and compared it with its budget.
#pragma once

#include <cstddef>
#include <span>

#include "daemon/worker/decode/bmp.h"
#include "daemon/worker/decode/generic.h"
#include "daemon/worker/decode/image.h"
#include "daemon/worker/decode/jpeg.h"
#include "daemon/worker/decode/pnm.h"
#include "shm/error.h"

namespace sl {

class Decoder {
  public:
    // Format and size from the leading bytes, which alone decide the format. `max_pixels`: a larger picture
    // is `pixel_budget`. `bytes` must stay where they are until decode_region has returned.
    SampleResult<ImageInfo> probe(std::span<const std::byte> bytes, std::uint64_t max_pixels);

    // Decodes part of the picture that probe() accepted last. The box must lie inside it and not be empty
    // (else kShapeMismatch). The region is good until the next call of either function.
    SampleResult<Region> decode_region(const RegionRequest& request);

  private:
    SampleResult<ImageInfo> read_header(ImageFormat format);
    SampleResult<Region> decode_bmp_region(const RegionRequest& request);

    std::span<const std::byte> bytes_;
    ImageInfo info_;
    JpegDecoder jpeg_;
    GenericDecoder generic_;
    BmpHeader bmp_;
    Scratch bmp_rows_;
    PnmHeader pnm_header_;
    PnmDecoder pnm_;
};

}  // namespace sl
