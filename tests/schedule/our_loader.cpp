#include "tests/schedule/our_loader.h"

#include <algorithm>
#include <numeric>

namespace sl::sim {

OurLoader::OurLoader(std::uint32_t workers, const std::vector<Workload>& workloads,
                     std::vector<OurOptions> options)
    : workers_(workers),
      workloads_(workloads),
      options_(std::move(options)),
      scheduler_(workers),
      streams_(workloads.size()) {
    std::uint32_t next = 0;
    for (const Workload& workload : workloads) {
        base_.push_back(next);
        next += static_cast<std::uint32_t>(workload.costs.size());
    }
}

void OurLoader::open(std::uint32_t stream, double) {
    const Workload& workload = workloads_[stream];
    Stream& opened = streams_[stream];
    opened.open = true;
    opened.states.assign(workload.costs.size(), State::kPlanned);
    opened.slot.resize(workload.costs.size());
    opened.left.assign(workload.batches(), workload.batch);
    opened.slots = SampleSlots(Segment(), 0, options_[stream].slots);
    opened.mean_ns = std::accumulate(workload.costs.begin(), workload.costs.end(), 0.0) /
                     static_cast<double>(workload.costs.size());
    scheduler_.add_stream(stream, {workload.batch, options_[stream].weight});
}

void OurLoader::close(std::uint32_t stream, double) {
    streams_[stream].open = false;
    scheduler_.remove_stream(stream);
    std::erase_if(reads_, [&](const auto& read) { return read.second.stream == stream; });
}

Lane OurLoader::lane(std::uint32_t stream, std::uint32_t sample) const {
    const double predicted = options_[stream].predicted[sample];
    if (predicted <= options_[stream].light_ns) return Lane::kLight;
    return predicted <= options_[stream].medium_ns ? Lane::kMedium : Lane::kHeavy;
}

Runnable OurLoader::entry(std::uint32_t stream, std::uint32_t sample) const {
    const std::uint32_t batch = workloads_[stream].batch;
    return {sample / batch, sample % batch, base_[stream] + sample, options_[stream].predicted[sample]};
}

void OurLoader::admit(std::uint32_t stream) {
    Stream& s = streams_[stream];
    const OurOptions& options = options_[stream];
    auto horizon = [&] {
        return options.horizon != 0 ? options.horizon
                                    : std::max(options.least_horizon, scheduler_.horizon(stream));
    };
    while (s.cursor < s.states.size() && s.waiting < horizon()) {
        const std::uint32_t sample = s.cursor++;
        ++s.waiting;
        s.states[sample] = State::kSized;
        s.admission.add(lane(stream, sample), entry(stream, sample));
        scheduler_.foresee(stream, lane(stream, sample), options_[stream].predicted[sample]);
    }
}

std::uint64_t OurLoader::due_step(std::uint32_t stream) const {
    const Stream& s = streams_[stream];
    return options_[stream].ready ? std::max(s.front, s.placed / workloads_[stream].batch) : s.front;
}

void OurLoader::start_reads(std::uint32_t stream, double now) {
    Stream& s = streams_[stream];
    const std::uint32_t cap = 2 * workers_ + 4;
    const std::uint64_t due = due_step(stream);
    s.admission.offer(scheduler_, stream, due, cap, [&](Lane in, const Runnable& one) {
        const auto slot = s.slots.acquire(in, one.step <= due);
        if (!slot) return Offer::kNoSlot;
        const std::uint32_t sample = one.task - base_[stream];
        s.slot[sample] = *slot;
        ++s.slots_held;
        --s.waiting;
        s.admission.entered(in);
        s.states[sample] = State::kReading;
        if (options_[stream].read_ns > 0) {
            reads_.emplace(now + options_[stream].read_ns, Job{stream, sample});
        } else {
            runnable(stream, sample);
        }
        return Offer::kTaken;
    });
    scheduler_.next_light(stream, s.admission.waiting().head(Lane::kLight));
}

void OurLoader::runnable(std::uint32_t stream, std::uint32_t sample) {
    streams_[stream].states[sample] = State::kRunnable;
    scheduler_.add(stream, lane(stream, sample), entry(stream, sample));
}

double OurLoader::wakes_at() const {
    return reads_.empty() ? kNever : reads_.begin()->first;
}

void OurLoader::turn(double now) {
    scheduler_.advance(static_cast<std::uint64_t>(now));
    while (!reads_.empty() && reads_.begin()->first <= now) {
        const Job job = reads_.begin()->second;
        reads_.erase(reads_.begin());
        runnable(job.stream, job.sample);
    }
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) {
        Stream& s = streams_[stream];
        if (!s.open) continue;
        scheduler_.update(stream, due_step(stream), s.mean_ns);
        admit(stream);
        start_reads(stream, now);
    }
}

std::optional<Job> OurLoader::next(std::uint32_t, double now) {
    turn(now);
    const auto pick = scheduler_.pick();
    if (!pick) {
        for (Stream& s : streams_)
            s.admission.starved();
        return std::nullopt;
    }
    const auto stream = static_cast<std::uint32_t>(pick->stream);
    const Job job{stream, pick->runnable.task - base_[stream]};
    Stream& s = streams_[stream];
    s.admission.left(pick->lane);
    s.admission.fed(scheduler_.runnable(stream, Lane::kLight), workers_);
    s.states[job.sample] = State::kRunning;
    if (on_start) on_start(job, now);
    return job;
}

void OurLoader::ended(std::uint32_t, const Job& job, double now) {
    scheduler_.advance(static_cast<std::uint64_t>(now));
    scheduler_.finished(base_[job.stream] + job.sample, workloads_[job.stream].costs[job.sample]);
    Stream& s = streams_[job.stream];
    if (!s.open) return;
    s.states[job.sample] = State::kDone;
    s.done.insert(job.sample);
    place(job.stream);
}

// Rows go to batches of the ring, which begins at the first batch that has not been taken.
void OurLoader::place(std::uint32_t stream) {
    Stream& s = streams_[stream];
    const OurOptions& options = options_[stream];
    const std::uint32_t batch = workloads_[stream].batch;
    const std::uint64_t end = (s.taken + options.ring) * batch;
    for (auto it = s.done.begin(); it != s.done.end();) {
        const std::uint64_t row = options.ready ? s.placed : *it;
        if (options.ring != 0 && row >= end) break;
        if (options.ring != 0) {
            s.slots.release(s.slot[*it]);
            --s.slots_held;
        } else if (options.ready) {
            s.keep_slots.push_back(*it);
        }
        ++s.placed;
        s.states[*it] = State::kPlaced;
        --s.left[*it / batch];
        it = s.done.erase(it);
    }
    while (s.front < s.left.size() && s.left[s.front] == 0)
        ++s.front;
}

bool OurLoader::ready(std::uint32_t stream) const {
    const Stream& s = streams_[stream];
    return options_[stream].ready ? s.placed >= (s.taken + 1) * workloads_[stream].batch : s.front > s.taken;
}

void OurLoader::take(std::uint32_t stream, bool waited, double now) {
    Stream& s = streams_[stream];
    const std::uint32_t batch = workloads_[stream].batch;
    for (std::uint32_t row = 0; options_[stream].ring == 0 && row < batch; ++row) {
        auto sample = static_cast<std::uint32_t>(s.taken * batch + row);
        if (options_[stream].ready) {
            sample = s.keep_slots.front();
            s.keep_slots.pop_front();
        }
        s.slots.release(s.slot[sample]);
        --s.slots_held;
    }
    ++s.taken;
    scheduler_.advance(static_cast<std::uint64_t>(now));
    scheduler_.taken(stream, s.taken, waited);
    place(stream);
}

}  // namespace sl::sim
