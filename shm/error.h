// Errors as values, for every C++ part: a code that a program can decide on and one sentence for a person.
//
// Two families. `Error` is for calls (opening a stream, mapping a segment): it carries the public negative
// status of the C API. `SampleError` is for one sample that could not become pixels: its kind is the public
// name in reports (docs/spec.md, at its end). Lower layers set the sentence, upper layers append to it, so a
// message reads as a causal chain. Nothing here throws or aborts.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace sl {

// Why a sample could not be delivered. The values cross processes (worker -> daemon): append only.
enum class SampleErrorKind : std::uint32_t {
    kNone = 0,
    kNotFound,
    kDenied,
    kChanged,
    kTimeout,
    kIo,
    kEmpty,
    kTruncated,
    kCorrupt,
    kUnsupportedFormat,
    kUnsupportedCoding,
    kUnsupportedDtype,
    kShapeMismatch,
    kPixelBudget,
    kByteBudget,
    kPoison,
    kRaised,   // the data set's own code, with its traceback
    kCollate,  // the client's own code that makes a batch of rows
    kCount
};

// "not_found", "truncated", ...: the names used in reports.
std::string_view to_string(SampleErrorKind kind);

inline constexpr std::int64_t kNoOffset = -1;

struct SampleError {
    SampleErrorKind kind = SampleErrorKind::kNone;
    std::string message;              // one sentence, without the path (the report adds it)
    std::int64_t offset = kNoOffset;  // byte offset in the file, where it makes sense
    int os_errno = 0;                 // errno behind it, or 0
};

// Public status codes of the C API; the same numbers as in <speedyloader/speedyloader.h>.
enum class Status : std::int32_t {
    kOk = 0,
    kInvalidArgument = -1,
    kNoMemory = -2,
    kDisconnected = -3,
    kProtocol = -4,
    kVersion = -5,
    kForked = -6,
    kNoDaemon = -7,
    kDenied = -8,
    kNotFound = -9,
    kSpec = -10,
    kDataset = -11,
    kBudget = -12,
    kSample = -13,
    kTooManyFailures = -14,
    kIo = -15,
    kInternal = -16,
    kUnsupported = -17,
};

struct Error {
    Status status = Status::kInternal;
    std::string message;
    int os_errno = 0;

    // Puts the caller's context in front: "cannot open stream: cannot map segment: ...".
    Error&& because(std::string_view context) && {
        message.insert(0, ": ");
        message.insert(0, context);
        return std::move(*this);
    }
};

// An Error from errno: "<what>: <strerror>".
Error os_error(Status status, std::string_view what, int error_number);

template <class T>
using Result = std::expected<T, Error>;
template <class T>
using SampleResult = std::expected<T, SampleError>;

inline std::unexpected<Error> fail(Status status, std::string message) {
    return std::unexpected(Error{status, std::move(message), 0});
}
inline std::unexpected<SampleError> fail_sample(SampleErrorKind kind, std::string message,
                                                std::int64_t offset = kNoOffset) {
    return std::unexpected(SampleError{kind, std::move(message), offset, 0});
}

}  // namespace sl
