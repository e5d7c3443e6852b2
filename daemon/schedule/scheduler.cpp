#include "daemon/schedule/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sl {

namespace {

constexpr double kOverrun = 4;  // times its prediction: then it is not what it was taken for
constexpr int kMostLookedAt =
    64;  // of a lane: the costs of slow samples differ, so the head need not be first
constexpr double kForget = 1.0 / 2048;
constexpr double kHorizon = 4;  // measured in the simulation; see docs/scheduling.md
constexpr double kMostHorizon = 8192;

// Subtracted as whole numbers: a resumed stream's steps may be larger than a double counts exactly.
double batches_between(std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(static_cast<std::int64_t>(to - from));
}

}  // namespace

void Scheduler::add_stream(std::uint64_t stream, const Share& share) {
    streams_[stream].share = share;
}

void Scheduler::remove_stream(std::uint64_t stream) {
    streams_.erase(stream);
}

void Scheduler::update(std::uint64_t stream, std::uint64_t front_step, double mean_ns) {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    Stream& updated = found->second;
    updated.front_step = front_step;
    updated.mean_ns = mean_ns;
    updated.front_ns = 0;
    for (const Running& running : running_) {
        if (running.stream == stream && running.runnable.step == front_step)
            updated.front_ns = std::max(updated.front_ns, remaining(running));
    }
}

void Scheduler::taken(std::uint64_t stream, std::uint64_t step, bool waited) {
    if (auto found = streams_.find(stream); found != streams_.end())
        found->second.consumer.taken(step, waited, now_ns_);
}

void Scheduler::add(std::uint64_t stream, Lane lane, const Runnable& runnable) {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    Stream& owner = found->second;
    // Who was idle, or is new, saves up no claim: it starts level with whoever goes first now.
    if (owner.queue.empty()) owner.served_ns = std::max(owner.served_ns, level_ns_);
    owner.queue.add(lane, runnable);
}

void Scheduler::remove(std::uint64_t stream, Lane lane, const Runnable& runnable) {
    if (auto found = streams_.find(stream); found != streams_.end())
        found->second.queue.remove(lane, runnable);
}

void Scheduler::foresee(std::uint64_t stream, double predicted_ns) {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    Stream& owner = found->second;
    owner.foreseen_ns += predicted_ns - kForget * owner.foreseen_ns;
    owner.foreseen_square += predicted_ns * predicted_ns - kForget * owner.foreseen_square;
}

Scheduler::Pace Scheduler::pace(const Stream& stream, Lane lane) const {
    return {.work_front = stream.front_ns,
            .work_step = stream.share.batch_size * stream.mean_ns * stretch_ / workers_,
            .consumer_front = stream.consumer.until(stream.front_step, now_ns_),
            .consumer_step = stream.consumer.step_ns(),
            .safety = stretch_ * (lane == Lane::kLight ? 1 : stream.safety.factor())};
}

double Scheduler::latest_start(const Stream& stream, const Pace& pace, const Runnable& runnable) {
    const double ahead = batches_between(stream.front_step, runnable.step);
    const double due =
        std::max(pace.work_front + ahead * pace.work_step, pace.consumer_front + ahead * pace.consumer_step);
    return due - runnable.predicted_ns * pace.safety;
}

// What a running sample may still take; one that should have ended is expected to take as long again.
double Scheduler::remaining(const Running& running) const {
    const double elapsed = static_cast<double>(now_ns_ - running.since_ns);
    const double expected = stretch_ * running.runnable.predicted_ns;
    return elapsed <= expected ? expected - elapsed : elapsed;
}

bool Scheduler::slow(const Running& running) const {
    return running.lane != Lane::kLight || static_cast<double>(now_ns_ - running.since_ns) >
                                               kOverrun * stretch_ * running.runnable.predicted_ns;
}

Scheduler::Choice Scheduler::best_of(const Stream& stream, Lane lane) const {
    Choice found{lane, nullptr, 0};
    int looked_at = 0;
    const Pace now = pace(stream, lane);
    for (const Runnable& runnable : stream.queue.lane(lane)) {
        const double start = latest_start(stream, now, runnable);
        if (found.runnable == nullptr || start < found.latest_start) found = {lane, &runnable, start};
        if (lane == Lane::kLight || ++looked_at == kMostLookedAt) break;
    }
    return found;
}

// The first of those whose batch has gone by.
Scheduler::Choice Scheduler::late(const Stream& stream) const {
    Choice chosen;
    for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy}) {
        const Runnable* head = stream.queue.head(lane);
        if (head == nullptr || batches_between(stream.front_step, head->step) >= 0) continue;
        if (chosen.runnable == nullptr || *head < *chosen.runnable)
            chosen = {lane, head, latest_start(stream, pace(stream, lane), *head)};
    }
    return chosen;
}

Scheduler::Choice Scheduler::best(const Stream& stream) const {
    Choice chosen = late(stream);
    if (chosen.runnable != nullptr) return chosen;
    for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy}) {
        const Choice found = best_of(stream, lane);
        if (found.runnable == nullptr) continue;
        if (chosen.runnable == nullptr || found.latest_start < chosen.latest_start) chosen = found;
    }
    return chosen;
}

bool Scheduler::last_worker() const {
    if (workers_ <= 1) return false;
    const auto held = std::ranges::count_if(running_, [this](const Running& one) { return slow(one); });
    return static_cast<std::uint64_t>(held) + 1 >= workers_;
}

bool Scheduler::light_is_due(const Stream& stream, double within_ns) const {
    const Choice light = best_of(stream, Lane::kLight);
    return light.runnable != nullptr && light.latest_start <= within_ns;
}

// When a worker would come free again if the last one took this.
double Scheduler::first_free(const Choice& last) const {
    double first = stretch_ * last.runnable->predicted_ns;
    for (const Running& running : running_)
        first = std::min(first, remaining(running));
    return first;
}

// A stream with a batch's time to spare lends, if the others can give back in time: a worker that takes a
// heavy sample of theirs is gone, and this says when the next comes. When it needs its share again it has no
// claim on what it lent.
void Scheduler::settle_lending() {
    double next_free = 0;
    if (running_.size() + 1 >= workers_) {
        next_free = std::numeric_limits<double>::infinity();
        for (const Running& running : running_)
            next_free = std::min(next_free, remaining(running));
    }
    if (running_.empty()) next_free = 0;
    for (auto& [id, stream] : streams_) {
        if (stream.queue.empty()) continue;
        const double step = stream.consumer.step_ns();
        const bool lends = step > 0 && best(stream).latest_start > step + next_free;
        if (stream.lends && !lends) stream.served_ns = std::max(stream.served_ns, level_ns_);
        stream.lends = lends;
    }
}

template <class Condition>
Scheduler::Entry* Scheduler::least_served(Condition condition) {
    Entry* chosen = nullptr;
    for (Entry& entry : streams_) {
        const Stream& stream = entry.second;
        if (stream.queue.empty() || !condition(stream)) continue;
        if (chosen == nullptr || stream.served_ns < chosen->second.served_ns) chosen = &entry;
    }
    return chosen;
}

std::optional<Pick> Scheduler::pick() {
    if (streams_.size() > 1) settle_lending();
    Entry* chosen = least_served([](const Stream& stream) { return !stream.lends; });
    if (chosen == nullptr) chosen = least_served([](const Stream&) { return true; });
    if (chosen == nullptr) return std::nullopt;
    level_ns_ = std::max(level_ns_, chosen->second.served_ns);
    Choice choice = best(chosen->second);
    const bool late = batches_between(chosen->second.front_step, choice.runnable->step) < 0;
    if (choice.lane != Lane::kLight && !late && last_worker()) {
        // The rule holds across streams too; who is passed over stays the least served and comes next.
        auto has_due_light = [this, within = first_free(choice)](const Stream& stream) {
            return light_is_due(stream, within);
        };
        if (Entry* light = has_due_light(chosen->second) ? chosen : least_served(has_due_light)) {
            chosen = light;
            choice = best_of(chosen->second, Lane::kLight);
        }
    }
    auto& [id, stream] = *chosen;
    Pick pick{id, choice.lane, *choice.runnable};
    stream.queue.remove(pick.lane, pick.runnable);
    stream.served_ns += pick.runnable.predicted_ns / stream.share.weight;
    running_.push_back({id, pick.lane, pick.runnable, now_ns_});
    return pick;
}

void Scheduler::leave(std::uint32_t task, double actual_ns) {
    auto running = std::ranges::find(running_, task, [](const Running& one) { return one.runnable.task; });
    if (running == running_.end()) return;
    if (auto found = streams_.find(running->stream); found != streams_.end() && actual_ns > 0) {
        Stream& stream = found->second;
        const double predicted = running->runnable.predicted_ns;
        stream.served_ns += (actual_ns - predicted) / stream.share.weight;
        if (running->lane != Lane::kLight) stream.safety.observe(predicted, actual_ns);
    }
    *running = running_.back();
    running_.pop_back();
}

void Scheduler::finished(std::uint32_t task, double actual_ns) {
    leave(task, actual_ns);
}

void Scheduler::lost(std::uint32_t task) {
    leave(task, 0);
}

std::uint32_t Scheduler::horizon(std::uint64_t stream) const {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return 0;
    const Stream& s = found->second;
    if (s.foreseen_ns <= 0) return 0;
    const double samples = kHorizon * s.foreseen_square / s.foreseen_ns * workers_ / std::max(s.mean_ns, 1.0);
    return static_cast<std::uint32_t>(std::min(samples, kMostHorizon));
}

double Scheduler::latest_start(std::uint64_t stream, Lane lane, const Runnable& runnable) const {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return 0;
    return latest_start(found->second, pace(found->second, lane), runnable);
}

std::size_t Scheduler::runnable(std::uint64_t stream, Lane lane) const {
    auto found = streams_.find(stream);
    return found == streams_.end() ? 0 : found->second.queue.size(lane);
}

double Scheduler::step_ns(std::uint64_t stream) const {
    auto found = streams_.find(stream);
    return found == streams_.end() ? 0 : found->second.consumer.step_ns();
}

double Scheduler::safety(std::uint64_t stream) const {
    auto found = streams_.find(stream);
    return found == streams_.end() ? 1 : found->second.safety.factor();
}

}  // namespace sl
