// What the trace is told on a task's way: one call of the conductor's legs for each thing that has ended.
#include "daemon/stream/conductor.h"

namespace sl {

namespace {

// An event about a task's sample that ends now; it began when the conductor asked for it.
sl_shm_trace_event event_of(const Task& task, std::uint8_t kind) {
    sl_shm_trace_event event{};
    event.begin_ns = task.asked_ns;
    event.end_ns = Trace::now();
    event.sample_id = task.sample_id;
    event.step = task.step;
    event.stream = static_cast<std::uint32_t>(task.stream->id());
    event.epoch = static_cast<std::uint32_t>(task.epoch);
    event.batch = static_cast<std::uint32_t>(task.batch);
    event.predicted_us = static_cast<std::uint32_t>(task.predicted_ns / 1000);
    event.kind = kind;
    event.lane = static_cast<std::uint8_t>(task.lane);
    return event;
}

}  // namespace

void Conductor::trace_read(const Task& task, const ReadCompletion& completion) {
    sl_shm_trace_event event = event_of(task, completion.is_open ? SL_SHM_TRACE_OPEN : SL_SHM_TRACE_READ);
    event.amount = completion.is_open ? completion.size : completion.bytes;
    event.error = static_cast<std::uint32_t>(completion.error);
    trace_.record(event);
}

void Conductor::trace_decode(Crew& crew, const Task& task, const sl_shm_completion& completion,
                             std::size_t worker) {
    sl_shm_trace_event event = event_of(task, SL_SHM_TRACE_DECODE);
    event.amount = completion.cpu_ns;
    event.track = static_cast<std::uint16_t>(worker);
    event.error = completion.error_kind;
    if (crew.is_native()) {
        const auto length = trace_.record_decode(event, crew.place, completion.begin_ns, completion.end_ns);
        ++crew.decoded.samples;
        crew.decoded.wall_ns += length;
        crew.decoded.cpu_ns += completion.cpu_ns;
    } else {
        trace_.record_guest(event, completion.begin_ns, completion.end_ns);
    }
    if (completion.error_kind == 0)
        task.stream->flow.slowest.add({task.sample_id, completion.cpu_ns, task.predicted_ns});
}

void Conductor::trace_collate(const Task& task, const sl_shm_completion& completion, std::size_t worker) {
    sl_shm_trace_event event = event_of(task, SL_SHM_TRACE_COLLATE);
    event.amount = completion.cpu_ns;
    event.track = static_cast<std::uint16_t>(worker);
    event.error = completion.error_kind;
    trace_.record_guest(event, completion.begin_ns, completion.end_ns);
}

void Conductor::trace_row(const Task& task, const RowDone& row) {
    sl_shm_trace_event event = event_of(task, SL_SHM_TRACE_ROW);
    event.begin_ns = row.begin_ns;
    event.end_ns = row.end_ns;
    event.batch += static_cast<std::uint32_t>(task.output_step - task.step);  // no sample leaves its epoch
    event.step = task.output_step;
    event.track = row.thread;
    trace_.record(event);
}

}  // namespace sl
