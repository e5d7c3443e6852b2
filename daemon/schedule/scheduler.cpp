#include "daemon/schedule/scheduler.h"

#include <algorithm>

namespace sl {

namespace {

constexpr double kForget = 1.0 / 2048;
constexpr double kHorizon = 16;  // measured in the simulation; see docs/scheduling.md
constexpr double kMostHorizon = 8192;

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

void Scheduler::next_light(std::uint64_t stream, const Runnable* waiting) {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    if (waiting == nullptr) {
        found->second.next_light.reset();
    } else {
        found->second.next_light = *waiting;
    }
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

void Scheduler::move(std::uint64_t stream, Lane from, Lane to, const Runnable& renewed) {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    found->second.queue.remove(from, renewed);
    found->second.queue.add(to, renewed);
}

void Scheduler::foresee(std::uint64_t stream, Lane lane, double predicted_ns) {
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    Stream& owner = found->second;
    owner.foreseen_ns += predicted_ns - kForget * owner.foreseen_ns;
    owner.foreseen_light += (lane == Lane::kLight ? predicted_ns : 0) - kForget * owner.foreseen_light;
    owner.foreseen_square += predicted_ns * predicted_ns - kForget * owner.foreseen_square;
}

Scheduler::Pace Scheduler::pace(const Stream& stream, Lane lane) const {
    return {.work_front = stream.front_ns,
            .work_step = stream.share.batch_size * stream.mean_ns * stretch_.factor() / workers_,
            .consumer_front = stream.consumer.until(stream.front_step, now_ns_),
            .consumer_step = stream.consumer.step_ns(),
            .safety = stretch_.factor() * (lane == Lane::kLight ? 1 : stream.safety.factor())};
}

// Subtracted as whole numbers: a resumed stream's steps may be larger than a double counts exactly.
double Scheduler::batches_ahead(const Stream& stream, const Runnable& runnable) {
    return static_cast<double>(static_cast<std::int64_t>(runnable.step - stream.front_step));
}

double Scheduler::latest_start(const Stream& stream, const Pace& pace, const Runnable& runnable) {
    const double ahead = batches_ahead(stream, runnable);
    const double due =
        std::max(pace.work_front + ahead * pace.work_step, pace.consumer_front + ahead * pace.consumer_step);
    return due - runnable.predicted_ns * pace.safety;
}

// What a running sample may still take; one that should have ended is expected to take as long again.
double Scheduler::remaining(const Running& running) const {
    const double elapsed = static_cast<double>(now_ns_ - running.since_ns);
    const double expected = stretch_.factor() * running.runnable.predicted_ns;
    return elapsed <= expected ? expected - elapsed : elapsed;
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
