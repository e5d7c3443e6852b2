// First leg of the conductor's way: plan -> open -> size -> lane -> read -> runnable.
//
// A file's size decides its lane before a byte is read; a sample slot and an input buffer are taken together,
// and only then is the read started. So whoever holds an input buffer can always be decoded, and buffers can
// never be held by samples that wait for each other.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>

#include "daemon/stream/conductor.h"
#include "shm/fault.h"

namespace sl {

namespace {

SampleErrorKind kind_of_errno(int error) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
            return SampleErrorKind::kNotFound;
        case EACCES:
        case EPERM:
        case EXDEV:  // out of the root, for a user that may read beneath it only
            return SampleErrorKind::kDenied;
        case ESTALE:
            return SampleErrorKind::kChanged;
        case ETIMEDOUT:
            return SampleErrorKind::kTimeout;
        default:
            return SampleErrorKind::kIo;
    }
}

// A handle that a network mount has forgotten; another open by path may find the file again.
constexpr std::uint32_t kMostReopened = 3;

SampleError errno_error(const char* what, int error) {
    Error described = os_error(Status::kIo, what, error);
    return {kind_of_errno(error), std::move(described.message), kNoOffset, error};
}

SampleError open_error(const Task& task, int error) {
    SampleError made = errno_error("cannot open the file", error);
    const auto& reach = task.stream->dataset().reach(task.sample_id);
    if (reach && made.kind == SampleErrorKind::kDenied) {
        made.message = reach->explain(task.path, error);
        if (error == EPERM) made.os_errno = EACCES;  // what the user would get itself
    }
    return made;
}

}  // namespace

void Conductor::admit(Stream& stream) {
    // Far enough ahead to start the longest samples in time. What waits for its turn is bounded too; the
    // plan's order keeps the members of the front step always admitted.
    constexpr std::uint32_t kLeastAhead = 192;
    // What a stream may open even when others have taken all there is: theirs may lie on a mount that hangs.
    constexpr std::uint32_t kAlwaysOpening = 8;
    const std::uint32_t ahead = std::max(kLeastAhead, stream.flow.crew->scheduler.horizon(stream.id()));
    const std::uint32_t most_tasks = ahead + stream.ring().layout().sample_slots.total();
    if (!costs_->is_ready(stream.predictor().model())) return;  // a moment, until its file has been read
    while (!stream.stopped() && !stream.planned_all() && stream.flow.opening < ahead &&
           (opens_ < max_files_ || stream.flow.opening < kAlwaysOpening) && stream.flow.tasks < most_tasks) {
        Task& task = tasks_.allocate();
        task.stream = &stream;
        stream.next_place(task);
        ++stream.flow.tasks;
        SL_FAULT(daemon_admitted);
        start(task);
    }
}

void Conductor::start(Task& task) {
    Stream& stream = *task.stream;
    if (stream.is_nobody(task.sample_id)) {
        task.placeholder = true;
        return finish(task);
    }
    task.state = TaskState::kOpening;
    task.reopened = 0;
    stream.dataset().path(task.sample_id, task.path);
    ++stream.flow.opening;
    // An item has no file: what it may cost is known as well as it ever will be.
    if (stream.is_items()) return on_size(task, stream.item_cost_bytes(task));
    open_file(task);
}

void Conductor::open_file(Task& task) {
    ++opens_;
    task.asked_ns = Trace::now();
    const Dataset& dataset = task.stream->dataset();
    reader_->open({TaskTable::tag(task), task.path.c_str(), dataset.mount(task.sample_id),
                   dataset.reach(task.sample_id)});
    watch_reads();
}

void Conductor::on_read_completion(const ReadCompletion& completion) {
    if (completion.is_open) --opens_;
    Task* task = tasks_.find(completion.tag);
    if (task == nullptr) return returned_late(completion);
    trace_read(*task, completion);
    if (completion.is_open) {
        task->fd = completion.fd;
        if (task->fd >= 0) ++files_held_;
        on_open(*task, completion);
    } else {
        on_read(*task, completion);
    }
}

void Conductor::on_open(Task& task, const ReadCompletion& completion) {
    Stream& stream = *task.stream;
    const bool again =
        task.state == TaskState::kReading;  // it was sized before, and its file closed meanwhile
    auto give_up = [&](SampleError error) {
        if (again) stream.flow.admission.left(task.lane);
        --stream.flow.opening;
        fail(task, std::move(error));
    };
    if (stream.flow.closing) return drop(task);
    if (completion.error == EMFILE || completion.error == ENFILE) {
        // Our limit, not the sample's fault: wait for descriptors to come free.
        spdlog::debug("out of descriptors: opening {} again", task.path);
        loop_.after(std::chrono::milliseconds(5), [this, tag = TaskTable::tag(task)] {
            if (Task* waiting = tasks_.find(tag)) open_file(*waiting);
        });
        return;
    }
    if (completion.error == ESTALE && task.reopened++ < kMostReopened) return open_file(task);
    if (completion.error != 0) return give_up(open_error(task, completion.error));
    task.mtime_ns = completion.mtime_ns;
    SL_FAULT(daemon_file_opened);
    if (auto known = quarantine_of(task).find(task.path, attempt_of(task, completion.size))) {
        return give_up(std::move(*known));
    }
    if (completion.size == 0) {
        SampleError error{SampleErrorKind::kEmpty, "the file is empty (0 bytes)", 0, 0};
        quarantine_of(task).remember(task.path, attempt_of(task, 0), error);
        return give_up(std::move(error));
    }
    const std::uint64_t capacity = stream.flow.crew->domain->input.capacity();
    if (completion.size > capacity) {
        return give_up({SampleErrorKind::kByteBudget,
                        "the file has " + describe_bytes(completion.size) + ", the daemon's input buffer " +
                            describe_bytes(capacity),
                        kNoOffset, 0});
    }
    if (!again) return on_size(task, completion.size);
    if (completion.size != task.bytes) {
        return give_up({SampleErrorKind::kChanged,
                        "the file had " + std::to_string(task.bytes) + " bytes a moment ago and has " +
                            std::to_string(completion.size) + " now",
                        kNoOffset, 0});
    }
    read_file(task);
}

void Conductor::on_size(Task& task, std::uint64_t bytes) {
    Stream& stream = *task.stream;
    task.bytes = bytes;
    predict(task);
    task.state = TaskState::kSized;
    stream.flow.admission.add(task.lane, task.runnable());
    stream.flow.crew->scheduler.foresee(stream.id(), task.lane, task.predicted_ns);
    SL_FAULT(daemon_sized);
    // Streams that wait for their consumers must not hold the descriptors that others need: opened again
    // later.
    if (files_held_ > max_files_) close_file(task);
}

void Conductor::start_reads(Stream& stream) {
    // A few samples ahead of the workers is enough: what lies in memory longer leaves the cache.
    Scheduler& scheduler = stream.flow.crew->scheduler;
    const std::uint32_t cap = 2 * stream.flow.crew->workers() + 4;
    Admission& admission = stream.flow.admission;
    std::vector<Task*> without_room;
    admission.offer(scheduler, stream.id(), stream.due_step(), cap, [&](Lane, const Runnable& next) {
        Task& task = tasks_.at(next.task);
        const Offer found = start_read(stream, task);
        if (found == Offer::kTaken || found == Offer::kMoved || stream.is_items() ||
            !stream.flow.crew->domain->is_starved())
            return found;
        without_room.push_back(&task);
        return Offer::kTaken;
    });
    scheduler.next_light(stream.id(), admission.waiting().head(Lane::kLight));
    for (Task* task : without_room) {
        --stream.flow.opening;
        fail(*task, {SampleErrorKind::kTimeout,
                     "no room to read it: reads that never returned hold the input buffer", kNoOffset, 0});
    }
}

// An item needs a slot and no more.
Offer Conductor::start_item(Stream& stream, Task& task) {
    auto slot = stream.slots().acquire(task.lane, task.step <= stream.due_step());
    if (!slot) return Offer::kNoSlot;
    task.slot = *slot;
    task.has_slot = true;
    --stream.flow.opening;
    stream.flow.admission.entered(task.lane);
    make_runnable(task);
    return Offer::kTaken;
}

Offer Conductor::start_read(Stream& stream, Task& task) {
    const Lane waited_in = task.lane;
    if (renew(task)) stream.flow.admission.move(waited_in, task.lane, task.runnable());
    if (task.lane != waited_in) return Offer::kMoved;
    if (stream.is_items()) return start_item(stream, task);
    // No stream takes more than its part of the input buffer, but one file at least.
    Crew& crew = *stream.flow.crew;
    InputArena& input = crew.domain->input;
    const std::uint64_t part = (input.capacity() - crew.domain->hung_bytes) / crew.streams;
    if (stream.flow.input_bytes > 0 && stream.flow.input_bytes + task.bytes > part) return Offer::kNoRoom;
    auto slot = stream.slots().acquire(task.lane, task.step <= stream.due_step());
    if (!slot) return Offer::kNoSlot;
    auto offset = input.allocate(task.bytes);
    if (!offset) {
        stream.slots().release(*slot);
        return Offer::kNoRoom;
    }
    task.slot = *slot;
    task.has_slot = true;
    task.input_offset = *offset;
    task.has_input = true;
    stream.flow.input_bytes += task.bytes;
    task.state = TaskState::kReading;
    stream.flow.admission.entered(task.lane);
    if (task.fd >= 0) {
        read_file(task);
    } else {
        open_file(task);
    }
    SL_FAULT(daemon_read_submitted);
    return Offer::kTaken;
}

void Conductor::read_file(Task& task) {
    task.asked_ns = Trace::now();
    const InputArena& input = task.stream->flow.crew->domain->input;
    reader_->read({TaskTable::tag(task), task.fd, 0, task.bytes, input.at(task.input_offset),
                   task.stream->dataset().mount(task.sample_id)});
    watch_reads();
}

void Conductor::on_read(Task& task, const ReadCompletion& completion) {
    Stream& stream = *task.stream;
    close_file(task);
    if (completion.error == ESTALE && !stream.flow.closing && task.reopened++ < kMostReopened) {
        return open_file(task);
    }
    --stream.flow.opening;
    auto give_up = [&](SampleError error) {
        stream.flow.admission.left(task.lane);
        fail(task, std::move(error));
    };
    if (stream.flow.closing) return drop(task);
    count(stream.ring().stats().bytes_read, completion.bytes);
    SL_FAULT(daemon_read_completed);
    if (completion.error != 0) return give_up(errno_error("cannot read the file", completion.error));
    if (completion.bytes < task.bytes) {
        return give_up({SampleErrorKind::kTruncated,
                        "the file became shorter while it was read: " + std::to_string(completion.bytes) +
                            " of " + std::to_string(task.bytes) + " bytes",
                        static_cast<std::int64_t>(completion.bytes), 0});
    }
    make_runnable(task);
    if (options_.predict && !task.cost_known)
        stream.flow.crew->domain->unseen.push_back(TaskTable::tag(task));
}

// Of a task with a file.
Quarantine& Conductor::quarantine_of(const Task& task) {
    return *task.stream->flow.crew->domain->quarantine;
}

Quarantine::Attempt Conductor::attempt_of(const Task& task, std::uint64_t size) {
    const Spec& spec = task.stream->spec();
    return {size, task.mtime_ns, spec.pipeline, task.key(spec.seed)};
}

void Conductor::make_runnable(Task& task) {
    task.state = TaskState::kRunnable;
    task.stream->flow.crew->scheduler.add(task.stream->id(), task.lane, task.runnable());
    SL_FAULT(daemon_runnable);
}

}  // namespace sl
