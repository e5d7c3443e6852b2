#include "shm/error.h"

#include <array>
#include <cstring>

namespace sl {

namespace {
constexpr std::array<std::string_view, static_cast<std::size_t>(SampleErrorKind::kCount)> kNames = {
    "none",
    "not_found",
    "denied",
    "changed",
    "timeout",
    "io",
    "empty",
    "truncated",
    "corrupt",
    "unsupported_format",
    "unsupported_coding",
    "unsupported_dtype",
    "shape_mismatch",
    "pixel_budget",
    "byte_budget",
    "poison",
    "raised",
    "collate"};
}  // namespace

std::string_view to_string(SampleErrorKind kind) {
    auto index = static_cast<std::size_t>(kind);
    return index < kNames.size() ? kNames[index] : "unknown";
}

Error os_error(Status status, std::string_view what, int error_number) {
    char buffer[128];
    std::string message(what);
    message += ": ";
    message += ::strerror_r(error_number, buffer, sizeof buffer);  // the GNU variant returns the text
    return Error{status, std::move(message), error_number};
}

}  // namespace sl
