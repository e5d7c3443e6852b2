// A task: one sample on its way from the plan to a row of a batch.
//
// Tasks live in one table, owned by the conductor thread, and are named by a tag (index and generation) in
// everything that leaves the thread: reads, jobs, rows. An answer whose tag names nobody is late and ignored.
//
//   kOpening -> kSized -> kReading -> kRunnable -> kDecoding -> kDone -> kAssembling -> (gone)
//
// A sample that fails starts again at kOpening as its substitute, or goes to kDone as a placeholder.
//
// A batch that a guest collates is a task as well, and a short one: kDecoding -> (gone). Its sample is the
// batch's first valid row's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "daemon/plan/batches.h"
#include "daemon/plan/pipeline.h"
#include "daemon/predict/predictor.h"
#include "daemon/schedule/lane_queue.h"
#include "shm/error.h"

namespace sl {

class Stream;

enum class TaskState : std::uint8_t {
    kFree,
    kOpening,
    kSized,
    kReading,
    kRunnable,
    kDecoding,
    kDone,
    kAssembling
};

struct Task {
    TaskState state = TaskState::kFree;
    std::uint32_t index = 0;  // in the table
    std::uint32_t generation = 0;
    Stream* stream = nullptr;

    // Its place: planned, and where it ends up (the same in strict order).
    std::uint64_t step = 0;
    std::uint64_t epoch = 0;
    std::uint64_t batch = 0;
    std::uint32_t row = 0;
    Member planned;
    std::uint64_t output_step = 0;
    std::uint32_t output_row = 0;

    // What it now tries to deliver.
    std::uint64_t sample_id = 0;
    std::uint64_t substitutes_tried = 0;
    bool collates = false;  // it is no sample but a whole batch
    bool placeholder = false;
    bool stops_stream = false;  // policy `fail`: `error` is published instead of its batch
    SampleError error;
    std::uint32_t failures = 0;
    std::int64_t failure_index = -1;
    std::string path;
    std::uint32_t reopened = 0;  // times that its file's handle had gone stale
    std::uint32_t crashes = 0;   // workers that died of a fault of their own while working on it
    std::uint32_t kills = 0;     // workers that were killed meanwhile

    // What it holds.
    int fd = -1;
    std::uint64_t bytes = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t input_offset = 0;
    bool has_input = false;
    std::uint32_t slot = 0;
    bool has_slot = false;
    bool in_place = false;  // its guest writes it, or has written it, into its row

    std::uint64_t asked_ns = 0;  // when its open, read or decode under way was asked for

    Lane lane = Lane::kLight;
    double predicted_ns = 0;
    bool cost_known = false;              // it had been decoded before
    std::optional<std::uint64_t> header;  // tag of the header job that a worker has, and reads its buffer for
    std::uint64_t learned = 0;            // what its cost model had observed when that was predicted
    double actual_ns = 0;
    Box box;
    bool flip = false;

    void predict(const Prediction& prediction, std::uint64_t observations) {
        lane = prediction.lane;
        predicted_ns = prediction.cost_ns;
        cost_known = prediction.known;
        learned = observations;
    }
    [[nodiscard]] Runnable runnable() const { return {step, row, index, predicted_ns}; }
    [[nodiscard]] DrawKey key(std::uint64_t seed) const { return {seed, epoch, sample_id}; }
};

class TaskTable {
  public:
    // A fresh task; addresses stay good while the table grows.
    Task& allocate() {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(tasks_.size()));
            tasks_.emplace_back().index = free_.back();
        }
        Task& task = tasks_[free_.back()];
        free_.pop_back();
        return task;
    }
    void release(Task& task) {
        Task fresh;
        fresh.index = task.index;
        fresh.generation = task.generation + 1;
        task = fresh;
        free_.push_back(task.index);
    }
    // A new tag for the same task: answers to the old one find nobody.
    static void rename(Task& task) { ++task.generation; }
    [[nodiscard]] Task& at(std::uint32_t index) { return tasks_[index]; }
    [[nodiscard]] static std::uint64_t tag(const Task& task) {
        return (std::uint64_t{task.generation} << 32) | task.index;
    }
    // The task that a tag names, or nullptr if it is gone.
    [[nodiscard]] Task* find(std::uint64_t tag) {
        auto index = static_cast<std::uint32_t>(tag);
        if (index >= tasks_.size() || tasks_[index].state == TaskState::kFree) return nullptr;
        return tasks_[index].generation == static_cast<std::uint32_t>(tag >> 32) ? &tasks_[index] : nullptr;
    }
    [[nodiscard]] std::vector<Task*> of(const Stream* stream) {
        std::vector<Task*> found;
        for (Task& task : tasks_) {
            if (task.state != TaskState::kFree && task.stream == stream) found.push_back(&task);
        }
        return found;
    }

  private:
    std::deque<Task> tasks_;
    std::vector<std::uint32_t> free_;
};

}  // namespace sl
