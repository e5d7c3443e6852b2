// A worker that decodes nothing: takes jobs through the real Attachment and answers each with its own fields.
//
// Started by worker_channel_test through the daemon's Worker, with its socket as descriptor 3. Ends by itself
// when the daemon has gone; status 1 if it could not attach.
#include "daemon/worker/attachment.h"

namespace {
// A few microseconds that differ from job to job: so that this process goes to sleep just when a quick daemon
// gives the next job, or takes that job just when the daemon goes to sleep.
void spin(std::uint64_t tag) {
    const std::uint64_t mixed = tag * 0x9e3779b97f4a7c15ULL;
    for (std::uint64_t i = (mixed >> 32) % 4000; i > 0; --i) {
        [[maybe_unused]] volatile std::uint64_t here = i;
    }
}
}  // namespace

int main() {
    auto attachment = sl::Attachment::attach(sl::UniqueFd(3));
    if (!attachment) return 1;
    while (auto job = attachment->next_job()) {
        sl_shm_completion completion{};
        completion.tag = job->tag;
        completion.cpu_ns = job->output_offset;
        completion.error_offset = static_cast<std::int64_t>(job->input.offset);
        completion.width = attachment->stream(job->stream_id) != nullptr ? 1 : 0;
        completion.height = attachment->input(job->input.offset, job->input.bytes).empty() ? 0 : 1;
        if (job->output_offset == SL_SHM_NO_OUTPUT) {
            attachment->complete_header(completion);
        } else {
            attachment->complete(completion);
        }
        spin(job->tag);
    }
    return 0;
}
