// Second leg of the conductor's way: runnable -> worker -> done, and what can go wrong there.
#include <spdlog/spdlog.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "daemon/quarantine/quarantine_lines.h"
#include "daemon/stream/conductor.h"
#include "shm/fault.h"

namespace sl {

namespace {

// Being killed from outside says less than a fault of its own (an operator, the memory killer), so it takes
// more of that.
constexpr std::uint32_t kMaxKills = 8;

void count_decoded(sl_shm_stats& stats, const Task& task, bool class_error) {
    auto lane = static_cast<std::size_t>(task.lane);
    auto actual = static_cast<std::uint64_t>(task.actual_ns);
    count(stats.decode_ns, actual);
    count(stats.lane_samples[lane], 1);
    count(stats.lane_decode_ns[lane], actual);
    count(stats.class_errors, class_error ? 1 : 0);
    count(stats.predicted, 1);
    count(stats.predicted_ns, static_cast<std::uint64_t>(task.predicted_ns));
    count(stats.actual_ns, actual);
    double error = std::abs(task.predicted_ns - task.actual_ns) / std::max(task.actual_ns, 1.0);
    count(stats.absolute_error_ppm, static_cast<std::uint64_t>(error * 1e6));
}

// For a sample that has ended so many workers that it is not tried again.
SampleError lost_error(const Task& task, const LostJob& lost) {
    spdlog::warn("{} has ended its worker {} times (last by {} {}): given up", shown(task.path),
                 task.crashes + task.kills, lost.timed_out ? "hanging, signal" : "signal", lost.signal);
    if (lost.timed_out) {
        return {SampleErrorKind::kTimeout,
                "it took so long to decode that its worker process was killed; a retry did no better",
                kNoOffset, 0};
    }
    return {SampleErrorKind::kPoison,
            "its worker process died each time it was decoded (last by signal " +
                std::to_string(lost.signal) + ")",
            kNoOffset, 0};
}

}  // namespace

// For an item or a batch whose guest has been killed since it took too long, or that has ended too many
// guests.
SampleError Conductor::lost_guest_error(const Task& task, const LostJob& lost) {
    spdlog::warn("{} has {} its guest: given up", shown(task.path),
                 lost.timed_out ? "taken too long, and lost" : "twice ended");
    if (!lost.timed_out) {
        return {SampleErrorKind::kPoison,
                task.collates ? "its guest worker ended each time it collated the batch"
                              : "its guest worker ended each time it made the item",
                kNoOffset, 0};
    }
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g s", task.stream->spec().items.timeout_s);
    return {SampleErrorKind::kTimeout, std::string("it took longer than errors.timeout_s allows, ") + limit,
            kNoOffset, 0};
}

void Conductor::dispatch(Crew& crew) {
    while (crew.pool->has_capacity()) {
        if (give_collate(crew)) continue;
        auto pick = crew.scheduler.pick();
        if (!pick) {
            if (crew.scheduler.holds()) look_again(crew);
            return starved(crew);
        }
        Task& task = tasks_.at(pick->runnable.task);
        Stream& stream = *task.stream;
        if (task.header) TaskTable::rename(task);  // the answer comes too late
        if (auto known = stream.is_items()
                             ? std::nullopt
                             : quarantine_of(task).find(task.path, attempt_of(task, task.bytes))) {
            // Found out since it was read, in another epoch or stream.
            crew.scheduler.lost(task.index);
            stream.flow.admission.left(task.lane);
            fail(task, std::move(*known));
            continue;
        }
        task.state = TaskState::kDecoding;
        task.asked_ns = Trace::now();
        stream.flow.admission.left(task.lane);
        const DrawKey key = stream.key(task);
        sl_shm_job job{};
        job.tag = TaskTable::tag(task);
        job.stream_id = stream.id();
        if (stream.is_items()) {
            job.place = stream.place_ahead(task);
            task.in_place = job.place.kind == SL_SHM_PLACE_ROW;
        } else {
            job.input = {task.input_offset, task.bytes};
        }
        job.output_offset = stream.slots().offset(task.slot);
        job.seed = key.seed;
        job.epoch = key.epoch;
        job.sample_id = key.sample_id;
        crew.pool->give(job, task.lane);
        stream.flow.admission.fed(crew.scheduler.runnable(stream.id(), Lane::kLight), crew.workers());
        start_reads(stream);  // one less in memory: the next may come
    }
}

// What the scheduler holds back may be due by then without anything else happening: when a sample hangs.
void Conductor::look_again(Crew& crew) {
    constexpr auto kSoon = std::chrono::milliseconds(20);
    if (std::exchange(crew.looks_again, true)) return;
    loop_.after(kSoon, [this, key = crew.key] {
        auto found = crews_.all().find(key);
        if (found != crews_.all().end()) found->second->looks_again = false;
    });
}

// Workers could take more, and reads may be what they wait for.
void Conductor::starved(const Crew& crew) {
    for (auto& [id, stream] : streams_) {
        if (stream->flow.crew == &crew && !stream->flow.closing) stream->flow.admission.starved();
    }
}

void Conductor::on_completion(Crew& crew, const sl_shm_completion& completion, std::size_t worker) {
    Task* task = tasks_.find(completion.tag);
    if (task == nullptr || task->state != TaskState::kDecoding) return;
    if (task->collates) {
        trace_collate(*task, completion, worker);
        on_collated(*task, completion);
        return drop(*task);
    }
    trace_decode(crew, *task, completion, worker);
    crew.scheduler.finished(task->index, static_cast<double>(completion.cpu_ns));
    crew.scheduler.took(static_cast<double>(completion.cpu_ns),
                        static_cast<double>(completion.end_ns - completion.begin_ns));
    Stream& stream = *task->stream;
    release_input(*task);
    SL_FAULT(daemon_completion_popped);
    if (stream.flow.closing) return drop(*task);
    if (completion.error_kind != 0) return fail_at_decode(*task, error_of(*task, completion));
    task->actual_ns = static_cast<double>(completion.cpu_ns);
    task->box = {completion.box[0], completion.box[1], completion.box[2], completion.box[3]};
    task->flip = completion.flip != 0;
    const bool class_error =
        stream.predictor().judge({task->predicted_ns, task->lane, task->cost_known}, task->actual_ns);
    sl_shm_stats& stats = stream.ring().stats();
    count_decoded(stats, *task, class_error);
    count(stats.warnings, completion.warnings != 0 ? 1 : 0);
    stream.predictor().observe(stream.key(*task), task->bytes,
                               {.format = completion.format,
                                .width = completion.width,
                                .height = completion.height,
                                .progressive = completion.progressive != 0,
                                .cost_ns = task->actual_ns});
    finish(*task);
}

SampleError Conductor::error_of(const Task& task, const sl_shm_completion& completion) {
    auto kind = completion.error_kind < static_cast<std::uint32_t>(SampleErrorKind::kCount)
                    ? static_cast<SampleErrorKind>(completion.error_kind)
                    : SampleErrorKind::kCorrupt;
    if (task.stream->is_items() && kind == SampleErrorKind::kRaised)
        return {kind, task.stream->item_text(task), kNoOffset, 0};
    return {kind, std::string(completion.message, ::strnlen(completion.message, sizeof completion.message)),
            completion.error_offset, 0};
}

void Conductor::on_lost(Crew& crew, const LostJob& lost) {
    Task* task = tasks_.find(lost.tag);
    if (task == nullptr || task->state != TaskState::kDecoding) return;
    if (task->collates) {
        on_collate_lost(*task, lost);
        return drop(*task);
    }
    crew.scheduler.lost(task->index);
    Stream& stream = *task->stream;
    if (stream.flow.closing) return drop(*task);
    if (stream.is_items() && lost.timed_out) return fail(*task, lost_guest_error(*task, lost));
    if (lost.suspect) {
        count(stream.ring().stats().retried, 1);
        // The pool's own kill, after too long a time, is the sample's doing like a crash.
        bool killed_from_outside = lost.signal == SIGKILL && !lost.timed_out;
        ++(killed_from_outside ? task->kills : task->crashes);
        if (task->crashes >= kMaxCrashes || task->kills >= kMaxKills)
            return stream.is_items() ? fail(*task, lost_guest_error(*task, lost))
                                     : fail_at_decode(*task, lost_error(*task, lost));
    }
    stream.flow.admission.entered(task->lane);
    make_runnable(*task);  // its bytes and its slot are still there
}

void Conductor::fail_at_decode(Task& task, SampleError error) {
    if (!task.stream->is_items())
        quarantine_of(task).remember(task.path, attempt_of(task, task.bytes), error);
    fail(task, std::move(error));
}

void Conductor::fail(Task& task, SampleError error) {
    Stream& stream = *task.stream;
    task.in_place = false;
    failure_log_.failed(dataset_name(stream.spec()), task.path, error);
    close_file(task);
    release_input(task);
    release_slot(task);
    stream.record_failure(task, error);
    switch (stream.spec().error_policy) {
        case ErrorPolicy::kRefill:
            task.crashes = 0;
            task.kills = 0;
            if (stream.next_substitute(task)) return start(task);
            [[fallthrough]];  // nobody is left to stand in
        case ErrorPolicy::kPlaceholder:
            task.placeholder = true;
            task.sample_id = task.planned.id;
            break;
        case ErrorPolicy::kFail:
            task.stops_stream = true;
            task.error = std::move(error);
            break;
    }
    finish(task);
}

}  // namespace sl
