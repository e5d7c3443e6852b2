// The walls around a process that decodes foreign bytes: a system call filter and resource limits.
//
// Called once by speedyloader-worker, on its main thread, when all that codecs load lies in memory and before
// the first foreign byte is looked at. Nothing gets out again: threads inherit it, and what would widen it is
// refused. What is refused answers EPERM, so that a codec that tries gets an error and its process lives on.
// What is allowed, and how that is tested, is in docs/sandbox.md. A wall that cannot be built is an error
// that says what to do; who gets one must not go on.
#pragma once

#include <cstdint>

#include "shm/error.h"

namespace sl {

// `max_pixels` is the largest picture that is to be decoded. With `raisable`, the parent may allow larger
// ones later (Worker::allow_pixels); the process itself cannot.
Result<void> close_sandbox(std::uint64_t max_pixels, bool raisable);

}  // namespace sl
