// Walks a JPEG file's markers up to the frame header, without the library.
//
// Gives size and coding in a few hundred nanoseconds, so that a forbidden size or an unsupported coding is a
// clear error before any buffer exists. Called by Decoder::probe. Pure, any thread. Marker layout: ITU-T
// T.81, annex B.
#pragma once

#include <cstddef>
#include <span>

#include "daemon/worker/decode/image.h"
#include "shm/error.h"

namespace sl {

// kTruncated if the bytes end before a frame header, kUnsupportedCoding (naming marker and precision) for
// lossless, hierarchical, 12-bit, zero-height and two-component files, kCorrupt for a malformed header.
SampleResult<ImageInfo> read_jpeg_header(std::span<const std::byte> bytes);

// True if an end-of-image marker (FF D9) stands at or after `from`, looking back over at most the last 64
// KiB: more trailing bytes than that cost a whole decode, not correctness. Only meaningful inside
// entropy-coded data, where FF D9 cannot be anything else.
bool has_end_marker(std::span<const std::byte> bytes, std::size_t from);

}  // namespace sl
