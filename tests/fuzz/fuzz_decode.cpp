// Fuzzes what a worker does with foreign bytes: sniff, header, region decode, resize, both profiles.
// Any answer is right but a crash, a leak or a sanitizer's report.
#include <vector>

#include "daemon/plan/pipeline.h"
#include "daemon/worker/decode/generic.h"
#include "daemon/worker/transform/execute.h"

namespace {

sl::Pipeline small_pipeline(sl::Profile profile) {
    sl::Pipeline pipeline;
    pipeline.ops[0].kind = sl::OpKind::kDecode;
    pipeline.ops[1] = {.kind = sl::OpKind::kRandomResizedCrop, .slot = 1, .height = 32, .width = 32};
    pipeline.op_count = 2;
    pipeline.height = 32;
    pipeline.width = 32;
    pipeline.profile = profile;
    pipeline.max_pixels = 1U << 22;  // bigger pictures only slow the search down
    return pipeline;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool started = sl::start_codecs().has_value();
    static sl::Executor executor;
    if (!started) return 0;
    std::vector<std::uint8_t> pixels(32 * 32 * 3);
    for (sl::Profile profile : {sl::Profile::kPillow, sl::Profile::kFast}) {
        sl::Pipeline pipeline = small_pipeline(profile);
        auto result =
            executor.execute(pipeline, {1, 2, size}, std::as_bytes(std::span(data, size)), pixels.data());
        static_cast<void>(result);
    }
    return 0;
}
