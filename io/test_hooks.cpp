// See test_hooks.h. Empty in a release.
#include "io/test_hooks.h"

#ifdef SL_TEST_HOOKS

namespace sl::test_hooks {

std::atomic<std::uint64_t> max_bytes_per_read{0};
std::atomic<bool> eagain_every_third_read{false};
std::atomic<bool> always_eagain{false};
std::atomic<bool> reverse_completions{false};
std::atomic<unsigned> refused_submissions{0};
std::atomic<std::uint64_t> read_calls{0};

void reset() {
    max_bytes_per_read = 0;
    eagain_every_third_read = false;
    always_eagain = false;
    reverse_completions = false;
    refused_submissions = 0;
    read_calls = 0;
}

std::size_t limit_read(std::uint64_t wanted) {
    std::uint64_t limit = max_bytes_per_read;
    return limit == 0 ? wanted : std::min(wanted, limit);
}

std::int64_t read_result(std::int64_t result) {
    std::uint64_t call = ++read_calls;
    if (always_eagain || (eagain_every_third_read && call % 3 == 0)) return -EAGAIN;
    return result;
}

bool refuse_submission() {
    unsigned left = refused_submissions;
    while (left > 0 && !refused_submissions.compare_exchange_weak(left, left - 1)) {
    }
    return left > 0;
}

}  // namespace sl::test_hooks

#endif
