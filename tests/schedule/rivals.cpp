#include "tests/schedule/rivals.h"

#include <algorithm>

namespace sl::sim {

ClassicLoader::ClassicLoader(std::uint32_t workers, const Workload& workload, bool in_order)
    : workload_(workload), in_order_(in_order), asked_(workers), row_(workers) {
    for (int round = 0; round < 2; ++round) {
        for (std::uint32_t worker = 0; worker < workers; ++worker)
            ask(worker);
    }
}

void ClassicLoader::ask(std::uint32_t worker) {
    if (next_batch_ < workload_.batches()) asked_[worker].push_back(next_batch_++);
}

std::optional<Job> ClassicLoader::next(std::uint32_t worker, double) {
    if (asked_[worker].empty()) return std::nullopt;
    return Job{0, asked_[worker].front() * workload_.batch + row_[worker]++};
}

void ClassicLoader::ended(std::uint32_t worker, const Job&, double) {
    if (row_[worker] < workload_.batch) return;
    whole_.insert(asked_[worker].front());
    asked_[worker].pop_front();
    row_[worker] = 0;
}

bool ClassicLoader::ready(std::uint32_t) const {
    return in_order_ ? whole_.contains(taken_) : !whole_.empty();
}

void ClassicLoader::take(std::uint32_t, bool, double) {
    whole_.erase(whole_.begin());
    ++taken_;
    if (in_order_) {
        ask(next_worker_);
        next_worker_ = (next_worker_ + 1) % static_cast<std::uint32_t>(asked_.size());
    } else {
        auto least = std::ranges::min_element(asked_, {}, [](const auto& batches) { return batches.size(); });
        ask(static_cast<std::uint32_t>(least - asked_.begin()));
    }
}

WindowLoader::WindowLoader(const Workload& workload, std::uint32_t window, bool strict)
    : workload_(workload), window_(window), strict_(strict), left_(workload.batches(), workload.batch) {}

std::optional<Job> WindowLoader::next(std::uint32_t, double) {
    const std::uint32_t memory = window_ * workload_.batch;
    const std::uint32_t held = (strict_ ? next_ : done_) - taken_ * workload_.batch;
    if (held >= memory || next_ == workload_.costs.size()) return std::nullopt;
    return Job{0, next_++};
}

void WindowLoader::ended(std::uint32_t, const Job& job, double) {
    ++done_;
    --left_[job.sample / workload_.batch];
}

bool WindowLoader::ready(std::uint32_t) const {
    return strict_ ? left_[taken_] == 0 : done_ - taken_ * workload_.batch >= workload_.batch;
}

void WindowLoader::take(std::uint32_t, bool, double) {
    ++taken_;
}

SimpleRule::SimpleRule(const Workload& workload, const Limits& limits, std::vector<double> predicted)
    : workload_(workload),
      limits_(limits),
      predicted_(std::move(predicted)),
      begun_(workload.costs.size()),
      left_(workload.batches(), workload.batch) {}

std::optional<std::uint32_t> SimpleRule::of_next_batch() const {
    const auto end = static_cast<std::uint32_t>(
        std::min<std::size_t>(std::size_t{taken_ + 1} * workload_.batch, begun_.size()));
    for (std::uint32_t sample = frontier_; sample < end; ++sample) {
        if (!begun_[sample]) return sample;
    }
    return std::nullopt;
}

std::optional<std::uint32_t> SimpleRule::earliest_latest_start() const {
    const auto end = static_cast<std::uint32_t>(
        std::min<std::size_t>(std::size_t{taken_ + limits_.horizon} * workload_.batch, begun_.size()));
    std::optional<std::uint32_t> best;
    double best_start = 0;
    double work = 0;
    for (std::uint32_t sample = frontier_; sample < end; ++sample) {
        if (begun_[sample]) continue;
        work += predicted_[sample];
        const double steps = sample / workload_.batch - taken_;
        const double due = std::max(work / limits_.workers, steps * workload_.step_ns);
        const double start = due - predicted_[sample];
        if (best && start >= best_start) continue;
        best = sample;
        best_start = start;
    }
    return best;
}

std::optional<Job> SimpleRule::next(std::uint32_t, double) {
    while (frontier_ < begun_.size() && begun_[frontier_])
        ++frontier_;
    const bool full = held_ >= limits_.window * workload_.batch;
    const auto sample = full ? of_next_batch() : earliest_latest_start();
    if (!sample) return std::nullopt;
    begun_[*sample] = true;
    ++held_;
    return Job{0, *sample};
}

void SimpleRule::ended(std::uint32_t, const Job& job, double) {
    --left_[job.sample / workload_.batch];
}

bool SimpleRule::ready(std::uint32_t) const {
    return left_[taken_] == 0;
}

void SimpleRule::take(std::uint32_t, bool, double) {
    ++taken_;
    held_ -= workload_.batch;
}

}  // namespace sl::sim
