// What the conductor knows of a task's cost on its way: when its size is known, and again while it waits.
//
// A prediction grows old: a sample is sized hundreds of samples before its turn, when the model may have
// known next to nothing, or when the sample's own last decode was still to come. So it is renewed when the
// sample gets its memory, and for all that wait for memory whenever the model has learned a lot.
#include <algorithm>
#include <utility>

#include "daemon/stream/conductor.h"

namespace sl {

namespace {

// Twice as much as the last time is a lot, within these bounds.
constexpr std::uint64_t kLeastLearned = 16;
constexpr std::uint64_t kMostLearned = 4096;

}  // namespace

void Conductor::predict(Task& task) {
    Stream& stream = *task.stream;
    Predictor& predictor = stream.predictor();
    Prediction prediction =
        predictor.predict(task.key(stream.spec().seed), task.bytes, format_hint(task.path));
    if (!options_.predict) prediction = {.cost_ns = predictor.mean_ns()};
    task.predict(prediction, predictor.model().observations());
}

// False if nothing has been learned since.
bool Conductor::renew(Task& task) {
    Stream& stream = *task.stream;
    Predictor& predictor = stream.predictor();
    const std::uint64_t learned = predictor.model().observations();
    if (!options_.predict || task.learned == learned) return false;
    task.predict(predictor.renew(task.key(stream.spec().seed), task.bytes, format_hint(task.path)), learned);
    return true;
}

void Conductor::renew_waiting(Stream& stream) {
    const std::uint64_t learned = stream.predictor().model().observations();
    if (learned < stream.flow.renew_at) return;
    stream.flow.renew_at = learned + std::clamp(learned, kLeastLearned, kMostLearned);
    stream.flow.admission.renew([this](Runnable& waiting) {
        Task& task = tasks_.at(waiting.task);
        renew(task);
        waiting = task.runnable();
        return task.lane;
    });
}

// A sample that has never been decoded is known by its bytes only: a worker looks at its header, between two
// decodes, while the sample waits for its turn. It waits for nothing but that: who is picked before the
// answer has come is decoded all the same. So where workers can start all there is, nobody is asked.
void Conductor::ask_headers() {
    const auto waiting = [this](std::uint64_t tag) {
        Task* task = tasks_.find(tag);
        return task != nullptr && task->state == TaskState::kRunnable && !task->header_asked ? task : nullptr;
    };
    while (!unseen_.empty() && waiting(unseen_.front()) == nullptr)
        unseen_.pop_front();
    if (unseen_.empty()) return;
    std::size_t runnable = 0;
    for (const auto& [id, stream] : streams_) {
        for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy})
            runnable += scheduler_.runnable(id, lane);
    }
    if (runnable <= workers_->places()) return;
    while (!unseen_.empty() && workers_->can_look()) {
        Task* task = waiting(unseen_.front());
        unseen_.pop_front();
        if (task == nullptr) continue;
        sl_shm_job job{};
        job.tag = TaskTable::tag(*task);
        job.input_offset = task->input_offset;
        job.input_bytes = task->bytes;
        job.output_offset = SL_SHM_NO_OUTPUT;
        workers_->give_header(job);
        task->header_asked = true;
    }
}

void Conductor::on_header(const sl_shm_completion& completion) {
    Task* task = tasks_.find(completion.tag);
    if (task == nullptr || !std::exchange(task->header_asked, false)) return;
    Stream& stream = *task->stream;
    const std::uint64_t pixels = std::uint64_t{completion.width} * completion.height;
    if (pixels == 0 || pixels > stream.spec().pipeline.max_pixels) return;  // the decode says what is wrong
    const Lane before = task->lane;
    const Picture picture{.format = completion.format,
                          .width = completion.width,
                          .height = completion.height,
                          .progressive = completion.progressive != 0};
    Predictor& predictor = stream.predictor();
    task->predict(predictor.renew(task->key(stream.spec().seed), task->bytes, picture),
                  predictor.model().observations());
    // Its slot stays the one it has.
    stream.flow.admission.changed(before, task->lane);
    scheduler_.move(stream.id(), before, task->lane, task->runnable());
}

// What a worker still says of the sample's header is about somebody else from now on: its buffer may be.
void Conductor::forget_header(Task& task) {
    if (std::exchange(task.header_asked, false)) TaskTable::rename(task);
}

}  // namespace sl
