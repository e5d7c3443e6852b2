// A picture's size and coding from its first bytes, without any library: what a prediction wants to know.
//
// Called by the worker for header jobs. Pure, any thread. Makes no judgement: a header that is damaged, cut
// or of a format that takes more than a glance gives nothing, and the decode says what is wrong. Safe
// whatever the bytes are, also while somebody overwrites them: each is looked at once, inside the span.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "daemon/worker/decode/image.h"

namespace sl {

// JPEG, PNG, GIF, WebP, TIFF, BMP and PNM. Neither side of the picture is 0.
std::optional<ImageInfo> glance(std::span<const std::byte> bytes);

}  // namespace sl
