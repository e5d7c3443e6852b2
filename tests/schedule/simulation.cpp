#include "tests/schedule/simulation.h"

#include <algorithm>

namespace sl::sim {

Simulation::Simulation(std::uint32_t workers, const std::vector<Workload>& workloads, Loader& loader)
    : workloads_(workloads), loader_(loader), streams_(workloads.size()), outcomes_(workloads.size()) {
    for (std::uint32_t worker = workers; worker-- > 0;)
        idle_.push_back(worker);
    for (std::uint32_t stream = 0; stream < workloads.size(); ++stream) {
        push(workloads[stream].opens_at, What::kOpen, stream);
        if (workloads[stream].closes_at < kNever) push(workloads[stream].closes_at, What::kClose, stream);
    }
}

void Simulation::push(double time, What what, std::uint32_t index, const Job& job) {
    events_.push({time, order_++, what, index, job});
}

std::vector<Outcome> Simulation::run(double until) {
    while (!events_.empty() && events_.top().time <= until) {
        const Event event = events_.top();
        events_.pop();
        now_ = event.time;
        handle(event);
        // All that happens at one moment is known before anybody decides.
        if (!events_.empty() && events_.top().time == now_) continue;
        for (std::uint32_t stream = 0; stream < streams_.size(); ++stream)
            consume(stream);
        start_workers();
        if (const double wake = loader_.wakes_at(); wake < kNever && wake != woken_for_) {
            woken_for_ = wake;
            push(std::max(wake, now_), What::kLoader, 0);
        }
    }
    return outcomes_;
}

void Simulation::handle(const Event& event) {
    switch (event.what) {
        case What::kOpen:
            streams_[event.index].open = true;
            streams_[event.index].ready_since = now_;
            loader_.open(event.index, now_);
            break;
        case What::kClose:
            streams_[event.index].open = false;
            loader_.close(event.index, now_);
            break;
        case What::kConsumer:
            streams_[event.index].ready_since = now_;
            break;
        case What::kWorker:
            sample_done(event);
            break;
        case What::kLoader:
            break;
    }
}

void Simulation::sample_done(const Event& event) {
    idle_.push_back(event.index);
    loader_.ended(event.index, event.job, now_);
    if (!streams_[event.job.stream].open) return;
    note_buffer(event.job.stream);
    ++streams_[event.job.stream].done;
    Outcome& outcome = outcomes_[event.job.stream];
    outcome.most_buffered = std::max(outcome.most_buffered, buffered(event.job.stream));
}

double Simulation::buffered(std::uint32_t stream) const {
    const Workload& workload = workloads_[stream];
    return static_cast<double>(streams_[stream].done) / workload.batch -
           static_cast<double>(outcomes_[stream].taken);
}

void Simulation::note_buffer(std::uint32_t stream) {
    Stream& s = streams_[stream];
    if (outcomes_[stream].taken > 0) s.buffered_area += buffered(stream) * (now_ - s.buffered_since);
    s.buffered_since = now_;
}

void Simulation::consume(std::uint32_t stream) {
    Stream& s = streams_[stream];
    Outcome& outcome = outcomes_[stream];
    const Workload& workload = workloads_[stream];
    while (s.open && s.ready_since && outcome.taken < std::min(workload.batches(), workload.stops_after) &&
           loader_.ready(stream)) {
        const double waited = now_ - *s.ready_since;
        if (outcome.taken > 0) {
            outcome.waited += waited;
            outcome.longest_wait = std::max(outcome.longest_wait, waited);
        }
        note_buffer(stream);
        ++outcome.taken;
        outcome.ended_at = now_;
        outcome.taken_at.push_back(now_);
        loader_.take(stream, waited > 0, now_);
        if (now_ > outcome.taken_at.front())
            outcome.mean_buffered = s.buffered_area / (now_ - outcome.taken_at.front());
        if (workload.step_ns > 0) {
            s.ready_since.reset();
            push(now_ + workload.step_ns, What::kConsumer, stream);
        }
    }
}

void Simulation::start_workers() {
    for (std::size_t free = idle_.size(); free-- > 0;) {
        const std::uint32_t worker = idle_[free];
        const auto job = loader_.next(worker, now_);
        if (!job && !loader_.workers_differ()) return;
        if (!job) continue;
        idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(free));
        Outcome& outcome = outcomes_[job->stream];
        const double cost = workloads_[job->stream].costs[job->sample];
        ++outcome.started;
        outcome.work += cost;
        push(now_ + cost, What::kWorker, worker, *job);
    }
}

}  // namespace sl::sim
