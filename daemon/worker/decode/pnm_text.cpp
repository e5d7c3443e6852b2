// The tokens of pnm_text.h.
#include "daemon/worker/decode/pnm_text.h"

#include <string>

namespace sl {
namespace {

constexpr std::uint32_t kMostDigits = 10;

bool is_space(unsigned char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string shown(unsigned char c) {
    constexpr char kDigits[] = "0123456789abcdef";
    return {'0', 'x', kDigits[c >> 4], kDigits[c & 15]};
}

std::unexpected<SampleError> corrupt(const std::string& what, std::size_t at) {
    return fail_sample(SampleErrorKind::kCorrupt, "PNM: " + what + " at byte " + std::to_string(at),
                       static_cast<std::int64_t>(at));
}

}  // namespace

void PnmText::skip_comment() {
    while (at_ < bytes_.size()) {
        const auto c = std::to_integer<unsigned char>(bytes_[at_++]);
        if (c == '\n' || c == '\r') return;
    }
}

PnmText::Number PnmText::next() {
    Number number;
    while (at_ < bytes_.size()) {
        const auto c = std::to_integer<unsigned char>(bytes_[at_++]);
        if (c >= '0' && c <= '9') {
            if (number.digits == kMostDigits) {
                number.end = End::kTooLong;
                return number;
            }
            number.value = number.value * 10 + (c - '0');
            ++number.digits;
        } else if (is_space(c)) {
            if (number.digits == 0) continue;
            number.end = End::kSpace;
            return number;
        } else if (c == '#') {
            skip_comment();
        } else {
            number.value = c;
            number.end = End::kForeign;
            return number;
        }
    }
    return number;
}

std::unexpected<SampleError> PnmText::failure(const Number& number) const {
    switch (number.end) {
        case End::kForeign:
            return corrupt("a byte " + shown(static_cast<unsigned char>(number.value)) + " in a number",
                           at_ - 1);
        case End::kTooLong:
            return corrupt("a number of more than " + std::to_string(kMostDigits) + " digits", at_ - 1);
        default:
            return fail_sample(SampleErrorKind::kTruncated,
                               "the PNM data end after " + std::to_string(bytes_.size()) + " bytes",
                               static_cast<std::int64_t>(bytes_.size()));
    }
}

SampleResult<std::uint64_t> PnmText::header_number() {
    const Number number = next();
    if (number.end != End::kSpace) return failure(number);
    return number.value;
}

SampleResult<void> PnmText::numbers(std::uint32_t most, std::span<std::uint16_t> out) {
    for (std::uint16_t& value : out) {
        const Number number = next();
        const bool last_of_file = number.end == End::kBytes && number.digits > 0;
        if (number.end != End::kSpace && !last_of_file) return failure(number);
        if (number.value > most) {
            return corrupt("a value of " + std::to_string(number.value) + " over the greatest, " +
                               std::to_string(most) + ",",
                           at_ - 1);
        }
        value = static_cast<std::uint16_t>(number.value);
    }
    return {};
}

SampleResult<void> PnmText::bits(std::span<std::uint16_t> out) {
    for (std::size_t i = 0; i < out.size();) {
        if (at_ == bytes_.size()) return failure({});
        const auto c = std::to_integer<unsigned char>(bytes_[at_++]);
        if (c == '0' || c == '1') {
            out[i++] = c - '0';
        } else if (c == '#') {
            skip_comment();
        } else if (!is_space(c)) {
            return failure({.value = c, .end = End::kForeign});
        }
    }
    return {};
}

}  // namespace sl
