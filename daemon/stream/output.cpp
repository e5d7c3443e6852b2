// Third leg of the conductor's way: done -> row -> batch -> client.
#include <algorithm>

#include "daemon/stream/conductor.h"
#include "shm/fault.h"

namespace sl {

void Conductor::finish(Task& task) {
    task.state = TaskState::kDone;
    if (task.stream->place(task)) assemble(task);
}

void Conductor::assemble(Task& task) {
    Stream& stream = *task.stream;
    rows_urgent_ |= stream.fully_placed(task);
    if (task.stops_stream) {
        stream.row_failed(task, task.error);
        drop(task);
        return;
    }
    if (stream.is_all_but_written(task)) {
        write_row(stream.row_job(task, TaskTable::tag(task)));
        stream.row_done(task);
        drop(task);
        return;
    }
    task.state = TaskState::kAssembling;
    assembler_->submit(stream.row_job(task, TaskTable::tag(task)));
    SL_FAULT(daemon_row_asked);
}

// A thread is woken for several rows at once, unless a batch waits for nothing but these rows, or no worker
// is at anything that could bring more: rows hold slots, and somebody may be waiting for one.
void Conductor::flush_rows() {
    constexpr std::size_t kRowsPerWake = 8;
    if (!rows_urgent_ && workers_busy() && assembler_->pending() < kRowsPerWake) return;
    rows_urgent_ = false;
    assembler_->flush();
}

bool Conductor::workers_busy() const {
    return std::ranges::any_of(crews_.all(), [](const auto& crew) { return crew.second->pool->busy(); });
}

void Conductor::on_row(const RowDone& row) {
    Task* task = tasks_.find(row.tag);
    if (task == nullptr) return;
    trace_row(*task, row);
    SL_FAULT(daemon_row_copied);
    Stream& stream = *task->stream;
    if (!stream.flow.closing) stream.row_done(*task);
    drop(*task);
}

void Conductor::advance(Stream& stream) {
    stream.publish();
    while (stream.open_outputs()) {
        for (std::uint32_t index : stream.take_waiting()) {
            Task& task = tasks_.at(index);
            if (stream.place(task)) assemble(task);
        }
        stream.publish();
    }
}

}  // namespace sl
