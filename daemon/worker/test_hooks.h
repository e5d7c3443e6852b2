// Faults that tests ask of a worker; compiled in by SL_TEST_HOOKS only, absent from a release.
//
//   a file that begins with "SL-TEST-ABORT"         the worker aborts (a decoder that crashes)
//   a file that begins with "SL-TEST-HANG"          the worker waits for ever (a decoder that does not end)
//   a file with "SL-TEST-HEADER-ABORT" near its start, or "SL-TEST-HEADER-HANG": the same on its header job,
//                                                   and on no other; it may be a good picture with a comment
//   SPEEDYLOADER_TEST_DELAY_US=N in the environment each sample takes up to N microseconds longer, at random
#pragma once

#include <cstddef>
#include <span>

namespace sl {
void run_test_hooks(std::span<const std::byte> file);
void run_header_hooks(std::span<const std::byte> file);
}  // namespace sl
