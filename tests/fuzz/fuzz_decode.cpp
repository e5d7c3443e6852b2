// Fuzzes what a worker does with foreign bytes: sniff, header, region decode, resize; in both profiles, to a
// size that lets `fast` shrink in the DCT and to one that does not, on one executor and so one decoder.
// Any answer is right but a crash, a leak or a sanitizer's report. libjpeg itself has no sanitizer in it; its
// finished pictures are fenced (tests/pixels/fenced_jpeg.h), so that what it does with them shows as well.
#include <vector>

#include "daemon/plan/pipeline.h"
#include "daemon/worker/decode/generic.h"
#include "daemon/worker/decode/glance.h"
#include "daemon/worker/transform/execute.h"

namespace {

constexpr std::uint32_t kLargest = 160;

sl::Pipeline small_pipeline(sl::Profile profile, std::uint32_t edge) {
    sl::Pipeline pipeline;
    pipeline.ops[0].kind = sl::OpKind::kDecode;
    pipeline.ops[1] = {.kind = sl::OpKind::kRandomResizedCrop, .slot = 1, .height = edge, .width = edge};
    pipeline.op_count = 2;
    pipeline.height = edge;
    pipeline.width = edge;
    pipeline.profile = profile;
    pipeline.max_pixels = 1U << 22;  // bigger pictures only slow the search down
    return pipeline;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool started = sl::start_codecs().has_value();
    static sl::Executor executor;
    if (!started) return 0;
    static std::vector<std::uint8_t> pixels(std::size_t{kLargest} * kLargest * 3);
    static_cast<void>(sl::glance(std::as_bytes(std::span(data, size))));
    for (const std::uint32_t edge : {8U, kLargest}) {
        for (const sl::Profile profile : {sl::Profile::kPillow, sl::Profile::kFast}) {
            const sl::Pipeline pipeline = small_pipeline(profile, edge);
            auto result =
                executor.execute(pipeline, {1, 2, size}, std::as_bytes(std::span(data, size)), pixels.data());
            static_cast<void>(result);
        }
    }
    return 0;
}
