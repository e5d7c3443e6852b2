// What the conductor knows of a task's cost on its way: when its size is known, and again while it waits.
//
// A prediction grows old: a sample is sized hundreds of samples before its turn, when the model may have
// known next to nothing, or when the sample's own last decode was still to come. So it is renewed when the
// sample gets its memory, and for all that wait for memory whenever the model has learned a lot.
#include <algorithm>

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

}  // namespace sl
