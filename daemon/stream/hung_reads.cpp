// Opens and reads that do not return in time: their tasks go on without them.
//
// A network mount whose server has gone, or a file system in user space that sleeps, may never answer. Then
// the sample fails with `timeout`, and the buffer and the descriptor stay with the call until the kernel lets
// go of it, so that it can never write into what somebody else uses. The same is done for all that is under
// way when a stream closes.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/stream/conductor.h"

namespace sl {

namespace {

std::string seconds(std::chrono::milliseconds time) {
    auto ms = time.count();
    return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

// Looks again and again while anything is under way; an idle daemon sleeps.
void Conductor::watch_reads() {
    if (std::exchange(watching_reads_, true)) return;
    using std::chrono::milliseconds;
    auto period = std::clamp(options_.read_timeout / 8, milliseconds(10), milliseconds(1000));
    loop_.after(period, [this] {
        watching_reads_ = false;
        give_up_reads();
        if (reader_->in_flight() > reader_->hung()) watch_reads();
    });
}

void Conductor::give_up_reads() {
    overdue_.clear();
    reader_->give_up(Reader::Clock::now() - options_.read_timeout, overdue_);
    for (std::uint64_t tag : overdue_) {
        Task* task = tasks_.find(tag);
        if (task != nullptr) {
            const bool sized = task->state == TaskState::kReading;
            SampleError error{SampleErrorKind::kTimeout,
                              std::string(task->fd < 0 ? "opening" : "reading") +
                                  " it did not return within " + seconds(options_.read_timeout),
                              kNoOffset, ETIMEDOUT};
            abandon(*task);
            if (sized) task->stream->flow.admission.left(task->lane);
            --task->stream->flow.opening;
            TaskTable::rename(*task);
            fail(*task, std::move(error));
        }
        if (auto late = late_reads_.find(tag); late != late_reads_.end()) {
            late->second.hung = true;
            late->second.domain->hung_bytes += InputArena::footprint(late->second.bytes);
        }
    }
}

// Takes from a task what its read holds. An open holds nothing: its descriptor is closed when it comes.
void Conductor::abandon(Task& task) {
    if (task.state != TaskState::kReading || task.fd < 0) return;
    late_reads_[TaskTable::tag(task)] = {.domain = task.stream->flow.crew->domain,
                                         .fd = task.fd,
                                         .input_offset = task.input_offset,
                                         .bytes = task.bytes,
                                         .mount = task.stream->dataset().mount(task.sample_id)};
    task.fd = -1;
    task.has_input = false;
    task.stream->flow.input_bytes -= task.bytes;
}

void Conductor::returned_late(const ReadCompletion& completion) {
    if (completion.is_open) {
        if (completion.fd >= 0) reader_->close(completion.fd, completion.mount);
        return;
    }
    auto found = late_reads_.find(completion.tag);
    if (found == late_reads_.end()) return;
    const LateRead& late = found->second;
    reader_->close(late.fd, late.mount);
    --files_held_;
    late.domain->input.release(late.input_offset, late.bytes);
    if (late.hung) late.domain->hung_bytes -= InputArena::footprint(late.bytes);
    late_reads_.erase(found);
}

}  // namespace sl
