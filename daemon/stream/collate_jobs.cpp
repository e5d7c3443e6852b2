// A batch that a guest collates, from whole to collated: it is given to a guest before any item, for it is
// what the consumer waits for, and what can go wrong there ends its stream.
//
// On the conductor's thread. The scheduler knows nothing of these jobs: they are due when they can be done,
// there is one a batch, and the pool counts the guest that is at one as busy.
#include "daemon/stream/conductor.h"

namespace sl {

// False if no batch waits. The crew has a guest that can take a job.
bool Conductor::give_collate(Crew& crew) {
    if (crew.is_native()) return false;
    for (auto& [id, stream] : streams_) {
        if (stream->flow.crew != &crew || stream->flow.closing || !stream->wants_collating()) continue;
        Task& task = tasks_.allocate();
        stream->begin_collating(task);
        ++stream->flow.tasks;
        task.asked_ns = Trace::now();
        // As no light one: nothing shall stand behind a job whose length nobody knows.
        crew.pool->give(stream->collate_job(task, TaskTable::tag(task)), Lane::kMedium);
        return true;
    }
    return false;
}

void Conductor::on_collated(Task& task, const sl_shm_completion& completion) {
    Stream& stream = *task.stream;
    if (stream.flow.closing) return;
    if (completion.error_kind == 0) return stream.collated(task, completion.written);
    SampleError error = error_of(task, completion);
    if (error.kind == SampleErrorKind::kCollate)
        error.message = stream.collate_text(task, completion.written);
    stream.collate_failed(task, error);
}

void Conductor::on_collate_lost(Task& task, const LostJob& lost) {
    Stream& stream = *task.stream;
    if (stream.flow.closing) return;
    if (lost.suspect) ++task.crashes;
    if (lost.timed_out || task.crashes >= kMaxCrashes)
        return stream.collate_failed(task, lost_guest_error(task, lost));
    stream.collate_again(task);
}

}  // namespace sl
