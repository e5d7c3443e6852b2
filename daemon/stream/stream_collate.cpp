// Whole batches that guests collate: the client's own code makes one thing of a batch's rows, before it is
// published.
//
// On the conductor's thread, as the rest of the stream. A batch waits for a guest once each of its rows is
// done; the guest reads them where they lie and writes beside them. Batches are asked for in order, come back
// in any, and are published in order. Nothing that a guest writes is believed: a length is bounded, a text
// made one.
#include <algorithm>

#include "daemon/stream/stream.h"

namespace sl {

bool Stream::wants_collating() const {
    return spec_.items.collate_bytes != 0 && !stopped_ &&
           std::ranges::find(outputs_, Collating::kWanted, &Output::collating) != outputs_.end();
}

void Stream::begin_collating(Task& task) {
    auto found = std::ranges::find(outputs_, Collating::kWanted, &Output::collating);
    found->collating = Collating::kAsked;
    task.stream = this;
    task.state = TaskState::kDecoding;
    task.collates = true;
    task.step = found->step;
    task.epoch = found->epoch;
    task.batch = found->batch;
    task.output_step = found->step;
    const auto first = std::ranges::find(found->rows, true, &Row::valid);
    task.row = static_cast<std::uint32_t>(first - found->rows.begin());
    task.sample_id = first->id;
    task.path = dataset_name(spec_);
    task.crashes = found->guests_lost;
}

sl_shm_job Stream::collate_job(const Task& task, std::uint64_t tag) const {
    const Output& output = output_of(task);
    sl_shm_job job{};
    job.tag = tag;
    job.stream_id = id();
    job.place = {.kind = SL_SHM_PLACE_COLLATE, .slot = output.slot, .row = output.count, .reserved = 0};
    job.output_offset = SL_SHM_NO_OUTPUT;
    job.seed = spec_.seed;
    job.epoch = spec_.items.epoch;
    job.sample_id = output.batch;
    return job;
}

void Stream::collated(const Task& task, std::uint64_t bytes) {
    Output& output = output_of(task);
    output.collating = Collating::kDone;
    output.collated_bytes = std::min(bytes, spec_.items.collate_bytes);
}

void Stream::collate_again(const Task& task) {
    Output& output = output_of(task);
    output.collating = Collating::kWanted;
    output.guests_lost = task.crashes;
}

void Stream::collate_failed(const Task& task, const SampleError& error) {
    Output& output = output_of(task);
    output.collating = Collating::kDone;
    output.error = sample_error(task, error);
    ledger_.failed({task.sample_id, task.path, error, task.epoch, task.batch, task.row, -1}, false);
    count(ring_.stats().failed);
}

}  // namespace sl
