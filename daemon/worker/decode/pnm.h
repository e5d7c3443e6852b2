// Reads portable anymaps, P1 to P6: bitmaps, grey and colour, plain and binary, with any maxval.
//
// Ours because libvips' loader does not notice where a file ends: it delivers what is missing as if it had
// been read (docs/decisions/0030-pnm.md). Called by Decoder, the header also by glance. Pixels are those of
// Pillow's PpmImagePlugin, value / maxval * 255 rounded, except that grey of more than 8 bits goes by the
// same rule as colour does, where Pillow's own convert("RGB") cuts off at 255. More than Pillow takes: a
// comment right behind P1 to P6, and anything at all behind the last pixel. Floats (PFM) are
// `unsupported_dtype`. read_pnm_header is pure; a PnmDecoder belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/worker/decode/image.h"
#include "shm/error.h"

namespace sl {

struct PnmHeader {
    ImageInfo info;
    std::size_t pixels_at = 0;
    std::uint32_t maxval = 1;
    bool plain = false;  // numbers as text
    bool bits = false;   // 1 is black; binary rows end on whole bytes
};

SampleResult<PnmHeader> read_pnm_header(std::span<const std::byte> bytes);

class PnmDecoder {
  public:
    // `header` was read from `bytes`, and the box lies inside. kTruncated if the file is too short for the
    // whole picture, which is known before a pixel is read or a byte allocated unless it is a plain one with
    // few digits to a number; those are read to their end. So what is wrong does not depend on the box.
    SampleResult<Region> decode(std::span<const std::byte> bytes, const PnmHeader& header,
                                const RegionRequest& request);

  private:
    Scratch rows_;
    Scratch line_;     // the box's part of a row, as it is stored
    Scratch numbers_;  // a plain row
};

}  // namespace sl
