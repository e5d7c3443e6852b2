// What a decoder that has been taken over would try, for tests of the sandbox; compiled in by SL_TEST_HOOKS
// only.
//
// A file "SL-TEST-TRY NAME" makes the worker that decodes it try NAME (test_escapes.cpp has the list), and
// the answer becomes the sample's error: "NAME: done", or "NAME: Operation not permitted". Some are answered
// by the worker's death. Called by the job loop, on its thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace sl {

// What a worker has in hand.
struct InHand {
    std::span<const std::byte> input;
    std::span<std::byte> samples;  // all of the stream's
    int socket = -1;
};

// Nothing: the file asks for nothing.
std::optional<std::string> try_to_escape(const InHand& hand);

}  // namespace sl
