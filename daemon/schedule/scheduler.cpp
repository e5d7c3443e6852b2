#include "daemon/schedule/scheduler.h"

#include <algorithm>
#include <limits>

namespace sl {

namespace {
constexpr double kSafety = 1.5;  // a prediction is half as much again wrong often enough
}

void Scheduler::add_stream(std::uint64_t stream, std::uint32_t batch_size) {
    // A newcomer starts level with whoever was served least, so that it neither starves nor takes over.
    double level = streams_.empty() ? 0 : std::numeric_limits<double>::max();
    for (const auto& [id, other] : streams_) level = std::min(level, other.served_ns);
    Stream& entry = streams_[stream];
    entry.batch_size = batch_size;
    entry.served_ns = level;
}

void Scheduler::remove_stream(std::uint64_t stream) { streams_.erase(stream); }

void Scheduler::update(std::uint64_t stream, std::uint64_t front_step, double mean_ns) {
    if (auto found = streams_.find(stream); found != streams_.end()) {
        found->second.front_step = front_step;
        found->second.mean_ns = mean_ns;
    }
}

void Scheduler::add(std::uint64_t stream, Lane lane, const Runnable& runnable) {
    if (auto found = streams_.find(stream); found != streams_.end()) {
        bool was_idle = found->second.queue.empty();
        found->second.queue.add(lane, runnable);
        if (!was_idle) return;
        // An idle stream saves up no claim: it comes back level with the least served of the busy ones.
        double level = std::numeric_limits<double>::max();
        for (const auto& [id, other] : streams_) {
            if (id != stream && !other.queue.empty()) level = std::min(level, other.served_ns);
        }
        if (level != std::numeric_limits<double>::max()) {
            found->second.served_ns = std::max(found->second.served_ns, level);
        }
    }
}

void Scheduler::remove(std::uint64_t stream, Lane lane, const Runnable& runnable) {
    if (auto found = streams_.find(stream); found != streams_.end()) found->second.queue.remove(lane, runnable);
}

double Scheduler::latest_start(const Stream& stream, const Runnable& runnable) const {
    double batches_ahead = static_cast<double>(runnable.step) - static_cast<double>(stream.front_step);
    double due = batches_ahead * stream.batch_size * stream.mean_ns / workers_;
    return due - runnable.predicted_ns * kSafety;
}

std::optional<Lane> Scheduler::best_lane(const Stream& stream) const {
    std::optional<Lane> best;
    double best_start = 0;
    for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy}) {
        const Runnable* head = stream.queue.head(lane);
        if (head == nullptr) continue;
        double start = latest_start(stream, *head);
        if (!best || start < best_start) {
            best = lane;
            best_start = start;
        }
    }
    bool last_worker = workers_ > 1 && running_not_light_ + 1 >= workers_;
    const Runnable* light = stream.queue.head(Lane::kLight);
    if (best && *best != Lane::kLight && last_worker && light != nullptr && latest_start(stream, *light) <= 0) {
        return Lane::kLight;
    }
    return best;
}

std::optional<Pick> Scheduler::pick() {
    Stream* chosen = nullptr;
    std::uint64_t chosen_id = 0;
    for (auto& [id, stream] : streams_) {
        if (stream.queue.empty()) continue;
        if (chosen == nullptr || stream.served_ns < chosen->served_ns) {
            chosen = &stream;
            chosen_id = id;
        }
    }
    if (chosen == nullptr) return std::nullopt;
    Lane lane = *best_lane(*chosen);
    Pick pick{chosen_id, lane, chosen->queue.take(lane)};
    chosen->served_ns += pick.runnable.predicted_ns;
    if (lane != Lane::kLight) ++running_not_light_;
    return pick;
}

void Scheduler::finished(Lane lane) {
    if (lane != Lane::kLight && running_not_light_ > 0) --running_not_light_;
}

std::size_t Scheduler::runnable(std::uint64_t stream, Lane lane) const {
    auto found = streams_.find(stream);
    return found == streams_.end() ? 0 : found->second.queue.size(lane);
}

}  // namespace sl
