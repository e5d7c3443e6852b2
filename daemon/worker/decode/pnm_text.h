// Numbers written as text: the header of every portable anymap and the pixels of the plain ones.
//
// Called by read_pnm_header and PnmDecoder. Looks at each byte once, from the front. Tokens are those of
// Pillow's PpmImagePlugin: white space parts them, a comment runs from # to the end of its line and is taken
// out, even of the middle of a number ("1#\n2" is 12), and a number has 10 digits at most. Only digits make a
// number: the signs and underscores that Python's int() takes besides are kCorrupt. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shm/error.h"

namespace sl {

class PnmText {
  public:
    PnmText(std::span<const std::byte> bytes, std::size_t at) : bytes_(bytes), at_(at) {}

    // One number of a header, which a single white space must follow: it is consumed too, and what comes then
    // is at(). kTruncated where the bytes end first.
    SampleResult<std::uint64_t> header_number();

    // The next numbers, one for each of `out`. Above `most` or no number: kCorrupt. kTruncated if they run
    // out.
    SampleResult<void> numbers(std::uint32_t most, std::span<std::uint16_t> out);

    // The next digits 0 or 1, which need no white space between them. Failures as above.
    SampleResult<void> bits(std::span<std::uint16_t> out);

    [[nodiscard]] std::size_t at() const { return at_; }

  private:
    enum class End { kSpace, kBytes, kForeign, kTooLong };  // what a number was ended by
    struct Number {
        std::uint64_t value = 0;
        std::uint32_t digits = 0;
        End end = End::kBytes;
    };
    Number next();
    void skip_comment();
    [[nodiscard]] std::unexpected<SampleError> failure(const Number& number) const;

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

}  // namespace sl
