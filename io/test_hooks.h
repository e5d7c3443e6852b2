// Fault points of the readers, for tests. Both back ends pass through them; without SL_TEST_HOOKS they are
// empty and cost nothing. Settings are atomics: a test sets them before it makes requests, any thread reads
// them. reset() gives the untouched reader back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#ifdef SL_TEST_HOOKS
#include <atomic>
#include <cerrno>
#endif

namespace sl::test_hooks {

#ifdef SL_TEST_HOOKS

extern std::atomic<std::uint64_t> max_bytes_per_read;  // 0: no limit
extern std::atomic<bool> eagain_every_third_read;
extern std::atomic<bool> always_eagain;
extern std::atomic<bool> reverse_completions;
extern std::atomic<unsigned> refused_submissions;  // so many submissions to io_uring answer EBUSY
extern std::atomic<std::uint64_t> read_calls;      // results seen by read_result

void reset();

std::size_t limit_read(std::uint64_t wanted);
// `result` is bytes or a negative errno; so is what comes back.
std::int64_t read_result(std::int64_t result);
bool refuse_submission();

template <class T>
void reorder(std::vector<T>& completions) {
    if (reverse_completions) std::reverse(completions.begin(), completions.end());
}

#else

inline std::size_t limit_read(std::uint64_t wanted) {
    return wanted;
}
inline std::int64_t read_result(std::int64_t result) {
    return result;
}
inline bool refuse_submission() {
    return false;
}
template <class T>
void reorder(std::vector<T>&) {}

#endif

}  // namespace sl::test_hooks
