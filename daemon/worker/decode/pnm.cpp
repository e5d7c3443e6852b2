// Header and rows of pnm.h. Layout: netpbm's manuals of pbm, pgm and ppm; where they leave a choice,
// Pillow's.
#include "daemon/worker/decode/pnm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "daemon/worker/decode/colour.h"
#include "daemon/worker/decode/pnm_text.h"

namespace sl {
namespace {

using Bytes = std::span<const std::byte>;
constexpr std::size_t kMagicBytes = 2;
constexpr std::uint32_t kMostOfAByte = 255;
constexpr std::uint32_t kLargestMaxval = 65535;
constexpr std::uint64_t kLargestSide = std::numeric_limits<std::int32_t>::max();

std::unexpected<SampleError> malformed(const std::string& what) {
    return fail_sample(SampleErrorKind::kCorrupt, "PNM: " + what);
}

// What stored values become: Pillow's round(value / maxval * 255), a half to the even side.
class Scale {
  public:
    explicit Scale(std::uint32_t maxval) : maxval_(maxval) {
        for (std::uint32_t value = 0; value <= kMostOfAByte; ++value)
            small_[value] = scaled(value);
    }
    std::uint8_t operator()(std::uint32_t value) const {
        return value <= kMostOfAByte ? small_[value] : scaled(value);
    }

  private:
    [[nodiscard]] std::uint8_t scaled(std::uint32_t value) const {
        const double exact = static_cast<double>(value) / maxval_ * kMostOfAByte;
        return static_cast<std::uint8_t>(std::min(std::nearbyint(exact), double{kMostOfAByte}));
    }

    std::uint32_t maxval_;
    std::array<std::uint8_t, kMostOfAByte + 1> small_{};
};

std::size_t value_bytes(const PnmHeader& header) {
    return header.maxval > kMostOfAByte ? 2 : 1;
}

// Of binary rows. Sides are below 2^31, so nothing overflows.
std::size_t row_bytes(const PnmHeader& header) {
    if (header.bits) return (std::size_t{header.info.width} + 7) / 8;
    return std::size_t{header.info.width} * header.info.components * value_bytes(header);
}

SampleResult<void> check_length(Bytes bytes, const PnmHeader& header) {
    const std::size_t left = bytes.size() - header.pixels_at;
    std::string needed;
    if (header.plain) {
        // A digit each, and between numbers of more than one bit something that parts them.
        const std::uint64_t room = header.bits ? left : left / 2 + left % 2;
        const std::uint64_t values =
            std::uint64_t{header.info.width} * header.info.height * header.info.components;
        if (values > room) needed = std::to_string(values) + " numbers";
    } else if (header.info.height > left / row_bytes(header)) {
        needed =
            std::to_string(header.info.height) + " rows of " + std::to_string(row_bytes(header)) + " bytes";
    }
    if (needed.empty()) return {};
    return fail_sample(SampleErrorKind::kTruncated,
                       "the PNM data end after " + std::to_string(bytes.size()) + " bytes: " + needed +
                           " do not fit into " + std::to_string(left),
                       static_cast<std::int64_t>(bytes.size()));
}

// Where the box's part of each row goes, and what becomes of it there.
struct Output {
    Box box;
    std::uint32_t components = 0;  // stored
    std::uint32_t channels = 0;    // asked for
    std::uint8_t* rows = nullptr;
    std::uint8_t* line = nullptr;

    [[nodiscard]] std::size_t first() const { return std::size_t{box.x} * components; }
    [[nodiscard]] std::size_t count() const { return std::size_t{box.width} * components; }
    [[nodiscard]] std::size_t stride() const { return std::size_t{box.width} * channels; }
    [[nodiscard]] std::uint8_t* row(std::uint32_t y) const { return rows + stride() * (y - box.y); }
    [[nodiscard]] std::uint8_t* values(std::uint32_t y) const {
        return components == channels ? row(y) : line;
    }

    // Values have been written to values(y).
    void finish(std::uint32_t y) const {
        if (components == channels) return;
        if (channels == 1) return rgb_to_grey(line, row(y), box.width);
        grey_to_rgb(line, 1, row(y), box.width);
    }
};

// `count` values of a binary row from the value `first` on, as bytes.
void binary_values(Bytes row, const PnmHeader& header, const Scale& scale, std::size_t first,
                   std::size_t count, std::uint8_t* out) {
    const auto byte = [&](std::size_t at) { return std::to_integer<std::uint32_t>(row[at]); };
    if (header.bits) {
        for (std::size_t i = first; i < first + count; ++i)
            *out++ = (byte(i / 8) >> (7 - i % 8) & 1) != 0 ? 0 : kMostOfAByte;
    } else if (header.maxval == kMostOfAByte) {
        std::memcpy(out, row.data() + first, count);
    } else if (value_bytes(header) == 1) {
        for (std::size_t i = first; i < first + count; ++i)
            *out++ = scale(byte(i));
    } else {
        for (std::size_t i = first; i < first + count; ++i)
            *out++ = scale(byte(2 * i) << 8 | byte(2 * i + 1));
    }
}

void read_binary(Bytes bytes, const PnmHeader& header, const Output& output) {
    const Scale scale(header.maxval);
    const std::size_t stored = row_bytes(header);
    for (std::uint32_t y = output.box.y; y < output.box.y + output.box.height; ++y) {
        binary_values(bytes.subspan(header.pixels_at + stored * y, stored), header, scale, output.first(),
                      output.count(), output.values(y));
        output.finish(y);
    }
}

SampleError in_row(SampleError error, std::uint32_t y, std::uint32_t height) {
    error.message += ", in row " + std::to_string(y + 1) + " of " + std::to_string(height);
    return error;
}

// Every number of the picture, whatever the box: only so are all of them known to be there. `row` holds one
// row.
SampleResult<void> read_plain(Bytes bytes, const PnmHeader& header, std::span<std::uint16_t> row,
                              const Output& output) {
    const Scale scale(header.maxval);
    PnmText text(bytes, header.pixels_at);
    for (std::uint32_t y = 0; y < header.info.height; ++y) {
        const auto read = header.bits ? text.bits(row) : text.numbers(header.maxval, row);
        if (!read) return std::unexpected(in_row(read.error(), y, header.info.height));
        if (y < output.box.y || y >= output.box.y + output.box.height) continue;
        std::uint8_t* out = output.values(y);
        for (const std::uint16_t value : row.subspan(output.first(), output.count()))
            *out++ = scale(header.bits ? 1U - value : value);  // 1 is black
        output.finish(y);
    }
    return {};
}

SampleResult<std::uint32_t> read_side(PnmText& text) {
    const auto side = text.header_number();
    if (!side) return std::unexpected(side.error());
    if (*side == 0) return malformed("a side of 0");
    if (*side > kLargestSide) {
        return fail_sample(SampleErrorKind::kPixelBudget,
                           "PNM: a side of " + std::to_string(*side) +
                               " pixels is over the most that any picture may have, " +
                               std::to_string(kLargestSide));
    }
    return static_cast<std::uint32_t>(*side);
}

}  // namespace

SampleResult<PnmHeader> read_pnm_header(Bytes bytes) {
    const auto kind = bytes.size() < kMagicBytes ? '\0' : std::to_integer<char>(bytes[1]);
    if (kind == 'f' || kind == 'F') {
        return fail_sample(SampleErrorKind::kUnsupportedDtype,
                           "PFM: pixels of type float cannot become uint8 without a scale");
    }
    if (kind < '1' || kind > '6') return fail_sample(SampleErrorKind::kUnsupportedFormat, "not P1 to P6", 0);
    PnmHeader header;
    header.plain = kind <= '3';
    header.bits = kind == '1' || kind == '4';
    PnmText text(bytes, kMagicBytes);
    const auto width = read_side(text);
    if (!width) return std::unexpected(width.error());
    const auto height = read_side(text);
    if (!height) return std::unexpected(height.error());
    if (!header.bits) {
        const auto maxval = text.header_number();
        if (!maxval) return std::unexpected(maxval.error());
        if (*maxval == 0 || *maxval > kLargestMaxval)
            return malformed("a greatest value of " + std::to_string(*maxval));
        header.maxval = static_cast<std::uint32_t>(*maxval);
    }
    header.info = {.format = ImageFormat::kPnm,
                   .width = *width,
                   .height = *height,
                   .components = kind == '3' || kind == '6' ? 3U : 1U};
    header.pixels_at = text.at();
    return header;
}

SampleResult<Region> PnmDecoder::decode(Bytes bytes, const PnmHeader& header, const RegionRequest& request) {
    if (const auto enough = check_length(bytes, header); !enough) return std::unexpected(enough.error());
    Output output{.box = request.box, .components = header.info.components, .channels = request.channels};
    const auto no_memory = [] {
        return fail_sample(SampleErrorKind::kByteBudget, "no memory for the picture's rows");
    };
    output.rows = rows_.reserve(output.stride() * output.box.height);
    output.line = line_.reserve(output.count());
    if (output.rows == nullptr || output.line == nullptr) return no_memory();
    if (header.plain) {
        const std::size_t values = std::size_t{header.info.width} * header.info.components;
        auto* numbers = reinterpret_cast<std::uint16_t*>(numbers_.reserve(values * sizeof(std::uint16_t)));
        if (numbers == nullptr) return no_memory();
        const auto read = read_plain(bytes, header, {numbers, values}, output);
        if (!read) return std::unexpected(read.error());
    } else {
        read_binary(bytes, header, output);
    }
    return Region{.pixels = output.rows,
                  .stride = output.stride(),
                  .width = output.box.width,
                  .height = output.box.height,
                  .channels = output.channels};
}

}  // namespace sl
