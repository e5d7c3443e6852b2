// Saved positions: where a stream stood, as the text that sl_stream_state of the C API writes, and whether a
// stream may begin there.
//
// Called by the broker when a client opens a stream with a state, and by the stream, which says of itself
// what the client then writes. Pure functions, any thread. Parsing is as strict as that of a spec. A position
// is arithmetic on the plan, so nothing here depends on how far the stream had come.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/plan/spec.h"
#include "shm/error.h"

namespace sl {

struct SavedPosition {
    // What fixes the plan: these must be the same where the position is opened.
    std::uint64_t dataset = 0;  // fingerprint
    std::uint64_t samples = 0;
    std::uint64_t seed = 0;
    bool shuffle = true;
    std::uint32_t order = kOrderVersion;
    std::uint64_t global_batch = 0;  // batch size x world size: any number of ranks that keeps it will do
    LastBatch last = LastBatch::kDrop;

    // The first batch that has not been delivered.
    std::uint64_t epoch = 0;  // the number of epochs once all have been
    std::uint64_t batch = 0;  // index in the epoch, always less than its number of batches

    bool operator==(const SavedPosition&) const = default;
};

// The start of a spec's stream over a dataset.
SavedPosition start_of(const Spec& spec, std::uint64_t dataset, std::uint64_t samples);

// kSpec, naming the key, for text that is not a saved position of this format.
Result<SavedPosition> parse_position(std::string_view json);

// What a dataset that is not the state's (another fingerprint, or number of samples) does to a state.
enum class OnChange : std::uint32_t { kRefuse = 0, kAllow = 1 };

// Whether the stream that begins at `start`, with this spec, can begin at `saved`'s epoch and batch instead.
// kSpec: they are different streams (the message names each difference with both values), or the stream has
// no such batch. kUnsupported: the batches of the spec's stream hold no planned members, and the position is
// within an epoch.
Result<void> check_position(const SavedPosition& saved, const SavedPosition& start, const Spec& spec,
                            std::uint64_t batches_per_epoch, OnChange on_change = OnChange::kRefuse);

}  // namespace sl
