#include "daemon/schedule/scheduler.h"

#include <algorithm>

namespace sl {

namespace {
constexpr double kSafety = 1.5;  // a prediction is half as much again wrong often enough
}

void Scheduler::add_stream(std::uint64_t stream, std::uint32_t batch_size) {
    streams_[stream].batch_size = batch_size;
}

void Scheduler::remove_stream(std::uint64_t stream) {
    streams_.erase(stream);
}

void Scheduler::update(std::uint64_t stream, std::uint64_t front_step, double mean_ns) {
    if (auto found = streams_.find(stream); found != streams_.end()) {
        found->second.front_step = front_step;
        found->second.mean_ns = mean_ns;
    }
}

void Scheduler::add(std::uint64_t stream, Lane lane, const Runnable& runnable) {
    if (auto found = streams_.find(stream); found != streams_.end()) {
        // Who was idle, or is new, saves up no claim: it starts level with whoever goes first now.
        if (found->second.queue.empty())
            found->second.served_ns = std::max(found->second.served_ns, level_ns_);
        found->second.queue.add(lane, runnable);
    }
}

void Scheduler::remove(std::uint64_t stream, Lane lane, const Runnable& runnable) {
    if (auto found = streams_.find(stream); found != streams_.end())
        found->second.queue.remove(lane, runnable);
}

double Scheduler::latest_start(const Stream& stream, const Runnable& runnable) const {
    // Subtracted as whole numbers: a resumed stream's steps may be larger than a double counts exactly.
    auto batches_ahead = static_cast<double>(static_cast<std::int64_t>(runnable.step - stream.front_step));
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
    if (best && *best != Lane::kLight && last_worker() && light_is_due(stream)) return Lane::kLight;
    return best;
}

bool Scheduler::last_worker() const {
    return workers_ > 1 && running_not_light_ + 1 >= workers_;
}

bool Scheduler::light_is_due(const Stream& stream) const {
    const Runnable* light = stream.queue.head(Lane::kLight);
    return light != nullptr && latest_start(stream, *light) <= 0;
}

Scheduler::Entry* Scheduler::least_served(bool with_due_light) {
    Entry* chosen = nullptr;
    for (Entry& entry : streams_) {
        const Stream& stream = entry.second;
        if (stream.queue.empty() || (with_due_light && !light_is_due(stream))) continue;
        if (chosen == nullptr || stream.served_ns < chosen->second.served_ns) chosen = &entry;
    }
    return chosen;
}

std::optional<Pick> Scheduler::pick() {
    Entry* chosen = least_served(false);
    if (chosen == nullptr) return std::nullopt;
    level_ns_ = std::max(level_ns_, chosen->second.served_ns);
    if (last_worker() && *best_lane(chosen->second) != Lane::kLight) {
        // The rule holds across streams too; who is passed over stays the least served and comes next.
        if (Entry* light = least_served(true)) chosen = light;
    }
    auto& [id, stream] = *chosen;
    Lane lane = *best_lane(stream);
    Pick pick{id, lane, stream.queue.take(lane)};
    stream.served_ns += pick.runnable.predicted_ns;
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
