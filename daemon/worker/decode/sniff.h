// Tells a picture's format from its leading bytes, never from its name.
//
// Called once per sample by Decoder::probe. Pure functions, any thread. Unknown content is a typed error that
// shows the first 8 bytes, so that a person sees at once whether it is text, a web page or noise.
#pragma once

#include <cstddef>
#include <span>

#include "daemon/worker/decode/image.h"
#include "shm/error.h"

namespace sl {

// kEmpty for no bytes, kUnsupportedFormat for an unknown start.
SampleResult<ImageFormat> sniff(std::span<const std::byte> bytes);

}  // namespace sl
