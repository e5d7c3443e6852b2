// The scheduler's choice: of each stream the sample that must start first, of the streams the one that has
// been served least, and the rules on top. See scheduler.h.
#include <algorithm>
#include <limits>

#include "daemon/schedule/scheduler.h"

namespace sl {

namespace {

constexpr double kOverrun = 4;  // times its prediction: then it is not what it was taken for
// Of a lane: the costs of slow samples differ, so the head need not be first.
constexpr int kMostLookedAt = 64;
constexpr double kGreedy = 0.5;     // of the time that a batch is worked on
constexpr double kStoreMargin = 2;  // steps; measured in the simulation, see docs/scheduling.md

}  // namespace

bool Scheduler::slow(const Running& running) const {
    return running.lane != Lane::kLight || static_cast<double>(now_ns_ - running.since_ns) >
                                               kOverrun * stretch_.factor() * running.runnable.predicted_ns;
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
        if (head == nullptr || batches_ahead(stream, *head) >= 0) continue;
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

const Runnable* Scheduler::first_light(const Stream& stream) {
    if (const Runnable* head = stream.queue.head(Lane::kLight)) return head;
    return stream.next_light ? &*stream.next_light : nullptr;
}

// Whoever lets whole batches lie, and has all the samples it may have, wants nothing. A consumer that is much
// faster than the workers waits for everything alike: for it there is no store to be kept.
bool Scheduler::wants_light(const Stream& stream) const {
    if (first_light(stream) == nullptr || stream.foreseen_ns <= 0) return false;
    const double work_step = pace(stream, Lane::kLight).work_step;
    if (stream.consumer.step_ns() < kGreedy * work_step) return false;  // or its pace is not known yet
    if (stream.queue.head(Lane::kLight) != nullptr) return true;
    return stream.front_step <= stream.consumer.taken() || stream.consumer.takes(work_step, now_ns_);
}

// No stream wants more than its consumer takes, nor more than its share of the workers makes. A store counts
// as used up two batches early: a batch is taken whole, and no sample ends quite when it was foreseen.
std::vector<LightDemand> Scheduler::light_demands() const {
    double weights = 0;
    for (const auto& [id, stream] : streams_)
        weights += wants_light(stream) ? stream.share.weight : 0;
    std::vector<LightDemand> demands;
    for (const auto& [id, stream] : streams_) {
        if (!wants_light(stream)) continue;
        const Pace now = pace(stream, Lane::kLight);
        const double light_ns = stream.foreseen_light / stream.foreseen_ns * now.work_step * workers_;
        const double step = std::max(now.work_step * weights / stream.share.weight, now.consumer_step);
        demands.push_back(
            {light_ns / step, latest_start(stream, now, *first_light(stream)) - kStoreMargin * step});
    }
    return demands;
}

bool Scheduler::suffices_beside(const Choice& slow_one) const {
    std::vector<double> ends{stretch_.factor() * slow_one.runnable->predicted_ns};
    for (const Running& running : running_) {
        if (slow(running)) ends.push_back(remaining(running));
    }
    return light_samples_suffice(ends, workers_, light_demands());
}

// When a worker would come free again if the last one took this.
double Scheduler::first_free(const Choice& last) const {
    double first = stretch_.factor() * last.runnable->predicted_ns;
    for (const Running& running : running_)
        first = std::min(first, remaining(running));
    return first;
}

// Who has a light sample that is due by then: this stream, or of the others the least served.
Scheduler::Entry* Scheduler::due_light(Entry& before, double within_ns) {
    Entry* chosen = nullptr;
    for (Entry& entry : streams_) {
        const Choice light = best_of(entry.second, Lane::kLight);
        if (light.runnable == nullptr || light.latest_start > within_ns) continue;
        if (&entry == &before) return &entry;
        if (chosen == nullptr || entry.second.served_ns < chosen->second.served_ns) chosen = &entry;
    }
    return chosen;
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

// Streams with something runnable: first those that do not lend, the least served first.
std::vector<Scheduler::Entry*> Scheduler::by_service() {
    std::vector<Entry*> order;
    for (Entry& entry : streams_) {
        if (!entry.second.queue.empty()) order.push_back(&entry);
    }
    std::ranges::stable_sort(order, {}, [](const Entry* entry) {
        return std::pair(entry->second.lends, entry->second.served_ns);
    });
    return order;
}

Pick Scheduler::start(Entry& entry, const Choice& choice) {
    auto& [id, stream] = entry;
    Pick pick{id, choice.lane, *choice.runnable};
    stream.queue.remove(pick.lane, pick.runnable);
    stream.served_ns += pick.runnable.predicted_ns / stream.share.weight;
    running_.push_back({id, pick.lane, pick.runnable, now_ns_});
    return pick;
}

std::optional<Pick> Scheduler::pick_of(Entry& entry) {
    const Stream& stream = entry.second;
    const Choice choice = best(stream);
    const bool gone_by = batches_ahead(stream, *choice.runnable) < 0;
    if (choice.lane == Lane::kLight || gone_by || running_.empty()) return start(entry, choice);
    if (choice.latest_start > 0 && !suffices_beside(choice)) {
        const Choice light = best_of(stream, Lane::kLight);
        if (light.runnable != nullptr) return start(entry, light);
        // Nearly late: the next batch that is taken must not find it waiting.
        if (choice.latest_start > stream.consumer.step_ns()) return std::nullopt;
    }
    if (!last_worker()) return start(entry, choice);
    // The rule holds across streams too; who is passed over stays the least served and comes next.
    Entry* light = due_light(entry, first_free(choice));
    return light == nullptr ? start(entry, choice) : start(*light, best_of(light->second, Lane::kLight));
}

std::optional<Pick> Scheduler::pick() {
    if (streams_.size() > 1) settle_lending();
    const std::vector<Entry*> order = by_service();
    if (!order.empty()) level_ns_ = std::max(level_ns_, order.front()->second.served_ns);
    holds_ = false;
    for (Entry* entry : order) {
        if (auto pick = pick_of(*entry)) return pick;
    }
    holds_ = !order.empty();
    return std::nullopt;
}

}  // namespace sl
