// What the conductor knows of samples' costs: the model of a stream, and a task's prediction on its way, when
// its size is known and again while it waits.
//
// A prediction grows old: a sample is sized hundreds of samples before its turn, when the model may have
// known next to nothing, or when the sample's own last decode was still to come. So it is renewed when the
// sample gets its memory, and for all that wait for memory whenever the model has learned a lot.
#include <algorithm>
#include <deque>
#include <utility>

#include "daemon/stream/conductor.h"

namespace sl {

namespace {

// Twice as much as the last time is a lot, within these bounds.
constexpr std::uint64_t kLeastLearned = 16;
constexpr std::uint64_t kMostLearned = 4096;

}  // namespace

std::shared_ptr<CostModel> Conductor::costs_of(const Spec& spec, const Dataset& dataset, const Crew& crew) {
    if (const ItemOrder* items = dataset.items())
        return crew_costs_.open(spec.items.crew, items->items_end(), items->mean_hint());
    const std::optional<uid_t> learned_by =
        crews_.is_home(crew) ? std::nullopt : std::optional<uid_t>(crew.uid);
    return costs_->open(dataset.fingerprint(), dataset.size(), spec.pipeline, learned_by);
}

// Only one of the two knows it.
void Conductor::let_go_of_costs(const std::shared_ptr<CostModel>& model) {
    costs_->ended(model);
    crew_costs_.ended(*model);
}

void Conductor::predict(Task& task) {
    Stream& stream = *task.stream;
    Predictor& predictor = stream.predictor();
    Prediction prediction = predictor.predict(stream.key(task), task.bytes, format_hint(task.path));
    if (!options_.predict) prediction = {.cost_ns = predictor.mean_ns()};
    task.predict(prediction, predictor.model().observations());
}

// False if nothing has been learned since.
bool Conductor::renew(Task& task) {
    Stream& stream = *task.stream;
    Predictor& predictor = stream.predictor();
    const std::uint64_t learned = predictor.model().observations();
    if (!options_.predict || task.learned == learned) return false;
    task.predict(predictor.renew(stream.key(task), task.bytes, format_hint(task.path)), learned);
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
void Conductor::ask_headers(Crew& crew) {
    std::deque<std::uint64_t>& unseen = crew.domain->unseen;
    const auto waiting = [this](std::uint64_t tag) {
        Task* task = tasks_.find(tag);
        return task != nullptr && task->state == TaskState::kRunnable && !task->header ? task : nullptr;
    };
    while (!unseen.empty() && waiting(unseen.front()) == nullptr)
        unseen.pop_front();
    if (unseen.empty()) return;
    std::size_t runnable = 0;
    for (const auto& [id, stream] : streams_) {
        for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy})
            runnable += crew.scheduler.runnable(id, lane);
    }
    if (runnable <= crew.pool->places()) return;
    while (!unseen.empty() && crew.pool->can_look()) {
        Task* task = waiting(unseen.front());
        unseen.pop_front();
        if (task == nullptr) continue;
        sl_shm_job job{};
        job.tag = TaskTable::tag(*task);
        job.input = {task->input_offset, task->bytes};
        job.output_offset = SL_SHM_NO_OUTPUT;
        crew.pool->give_header(job);
        task->header = job.tag;
    }
}

void Conductor::on_header(const sl_shm_completion& completion) {
    header_ended(completion.tag);
    Task* task = tasks_.find(completion.tag);
    if (task == nullptr) return;  // it has been picked, or has gone
    Stream& stream = *task->stream;
    const std::uint64_t pixels = std::uint64_t{completion.width} * completion.height;
    if (pixels == 0 || pixels > stream.spec().pipeline.max_pixels) return;  // the decode says what is wrong
    const Lane before = task->lane;
    const Picture picture{.format = completion.format,
                          .width = completion.width,
                          .height = completion.height,
                          .progressive = completion.progressive != 0};
    Predictor& predictor = stream.predictor();
    task->predict(predictor.renew(stream.key(*task), task->bytes, picture), predictor.model().observations());
    // Its slot stays the one it has.
    stream.flow.admission.changed(before, task->lane);
    stream.flow.crew->scheduler.move(stream.id(), before, task->lane, task->runnable());
}

// No worker reads the buffer for this job any more.
void Conductor::header_ended(std::uint64_t tag) {
    if (const auto late = late_headers_.extract(tag)) {
        late.mapped().domain->input.release(late.mapped().input_offset, late.mapped().bytes);
    } else if (Task& task = tasks_.at(static_cast<std::uint32_t>(tag)); task.header == tag) {
        task.header.reset();
    }
}

}  // namespace sl
