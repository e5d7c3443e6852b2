// Fuzzes saved positions: whatever a client calls one, the answer is a position or one sentence; and a
// position that is accepted for a stream lies within it.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <string>

#include "daemon/plan/position.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedDataProvider input(data, size);
    const auto batches = input.ConsumeIntegralInRange<std::uint64_t>(1, 1000);
    const auto on_change = input.ConsumeBool() ? sl::OnChange::kAllow : sl::OnChange::kRefuse;
    const bool ready = input.ConsumeBool();
    const std::string text = input.ConsumeRemainingBytesAsString();
    const auto saved = sl::parse_position(text);
    if (!saved) return 0;
    sl::Spec spec;
    spec.epochs = 10;
    if (ready) spec.order_policy = sl::OrderPolicy::kReady;
    // A stream that the text may be of, so that more than its differences is looked at.
    sl::SavedPosition start = *saved;
    start.epoch = 0;
    start.batch = 0;
    const auto accepted = sl::check_position(*saved, start, spec, batches, on_change);
    if (!accepted) return 0;
    const bool within = saved->epoch < spec.epochs && saved->batch < batches;
    const bool at_the_end = saved->epoch == spec.epochs && saved->batch == 0;
    if (!within && !at_the_end) std::abort();
    if (ready && saved->batch != 0) std::abort();
    return 0;
}
