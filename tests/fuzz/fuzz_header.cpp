// Fuzzes the header parsers: what is told of a picture from its first bytes, by a glance and in full, and
// that the two do not contradict each other. Any answer is right but a crash, a leak or a sanitizer's report.
#include <cstdlib>
#include <span>

#include "daemon/worker/decode/bmp.h"
#include "daemon/worker/decode/decoder.h"
#include "daemon/worker/decode/glance.h"
#include "daemon/worker/decode/jpeg_header.h"
#include "daemon/worker/decode/sniff.h"

namespace {
constexpr std::uint64_t kMostPixels = 1U << 22;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool started = sl::start_codecs().has_value();
    static sl::Decoder decoder;
    if (!started) return 0;
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto format = sl::sniff(bytes);
    static_cast<void>(sl::read_jpeg_header(bytes));
    static_cast<void>(sl::read_bmp_header(bytes));
    static_cast<void>(sl::has_end_marker(bytes, size / 2));
    const auto seen = sl::glance(bytes);
    const auto read = decoder.probe(bytes, kMostPixels);
    if (read && !format) std::abort();
    if (read && read->width * std::uint64_t{read->height} > kMostPixels) std::abort();
    if (read && seen && seen->format != read->format) std::abort();
    return 0;
}
